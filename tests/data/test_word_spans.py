"""Word spans: split as annotators split them, without losing a character."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.word_spans import word_spans


def cut(text):
    return [text[start:stop] for start, stop in word_spans(text)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Yesterday, Harry Potter met Hermione Granger.", "Yesterday | , | Harry | Potter | met | Hermione | Granger | ."),
        ("It's Anna's dogs' tail, don't!", "It | 's | Anna | 's | dogs | ' | tail | , | don't | !"),
        ("@paul: #esb http://t.co/a?x=1 www.x.org", "@paul | : | #esb | http://t.co/a?x=1 | www.x.org"),
        ("at 7:30 p.m. in the U.S. 30,000...", "at | 7:30 | p.m. | in | the | U.S. | 30,000 | ..."),
        ("spider-man -- (!!)", "spider-man | -- | ( | !! | )"),
        ("e\u0301te\u0301 \u092e\u0941\u0902\u092c\u0908 \u0645\u06cc\u200c\u0631\u0648\u0645", "e\u0301te\u0301 | \u092e\u0941\u0902\u092c\u0908 | \u0645\u06cc\u200c\u0631\u0648\u0645"),
        ("  ", ""),
    ],
)  # fmt: skip
def test_words_as_they_are_tagged(text, words):
    assert cut(text) == words.split(" | ") if words else cut(text) == []


@given(st.text())
def test_nothing_is_lost_but_white_space(text):
    assert "".join(cut(text)) == "".join(c for c in text if not c.isspace())
    ends = [place for span in word_spans(text) for place in span]
    assert ends == sorted(ends) and all(start < stop for start, stop in word_spans(text))


@pytest.mark.parametrize("unit", ["a", "'", "a-", "1.", "a.", "@", "'s", "http://", "a'"])
def test_time_is_linear(unit):
    started = time.process_time()
    word_spans(unit * (300_000 // len(unit)))
    assert time.process_time() - started < 2
