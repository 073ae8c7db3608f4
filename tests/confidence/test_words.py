"""The words of a translation and the tokens that wrote them."""

from __future__ import annotations

import pytest

from regard.confidence.marks import marked_html, marked_text
from regard.confidence.words import Word, both, joined_words, lowest, scored_words, word_spans, words_found, words_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I'd like (two) cafés, please!", ["I'd", "like", "two", "cafés", "please"]),
        ("« Oui » — 3,5 %.", ["Oui", "3,5"]),
        ("می‌روم به خانه.", ["می‌روم", "به", "خانه"]),
        ("मैं हूँ।", ["मैं", "हूँ"]),
        ("... !", []),
        ("", []),
    ],
)
def test_words_are_without_the_marks_around_them(text: str, words: list[str]) -> None:
    assert [text[start:end] for start, end in word_spans(text)] == words


def test_a_word_is_right_as_often_as_the_reference_has_it() -> None:
    assert words_found(words_of("The cat and the dog"), "the dog, The CAT") == [True, True, False, True, True]
    assert words_found(words_of("the the"), "the end") == [True, False]


def test_tokens_belong_to_the_words_that_they_write() -> None:
    found = scored_words("I'd like cafés.", [" I", "'", "d", " like", " caf", "", "és", "."], list(range(8)))
    assert found == [(0, 3, (0, 1, 2)), (4, 8, (3,)), (9, 14, (4, 5, 6))]


def test_a_token_of_two_words_belongs_to_both() -> None:
    assert scored_words("a b", [" a b"], [-1.0]) == [(0, 1, (-1.0,)), (2, 3, (-1.0,))]


def test_without_the_texts_of_tokens_there_are_no_words() -> None:
    assert scored_words("ab", ["a", "c"], [-1.0, -1.0]) == []


def test_joined_words_move_with_their_texts() -> None:
    parts = [("One.", [Word(0, 3, 0.1)]), ("Two.", [Word(0, 3, 0.2)])]
    text = " ".join(part for part, _ in parts)
    assert [(text[w.start : w.end], w.confidence) for w in joined_words(parts)] == [("One", 0.1), ("Two", 0.2)]


def test_a_text_is_as_doubtful_as_its_most_doubtful_sentence() -> None:
    assert lowest([0.9, 0.2]) == 0.2 and lowest([0.9, None]) is None and lowest([]) is None
    assert both(0.5, 0.5) == 0.25 and both(None, 0.5) is None


def test_neighbours_share_their_marks() -> None:
    text = "He has to, yes."
    words = [Word(0, 2, 0.9), Word(3, 6, 0.2), Word(7, 9, 0.3), Word(11, 14, 0.1)]
    assert marked_text(text, words, 0.5) == "He [has to?], [yes?]."
    assert marked_text(text, words, 0.0) == text and marked_text("", [], 1.0) == ""


def test_html_escapes_and_says_the_confidence() -> None:
    found = marked_html('a<b "c" & d', [Word(0, 3, 0.123), Word(5, 6, 0.7), Word(10, 11, 0.49)], 0.5)
    assert found == (
        '<span class="doubtful" title="confidence 0.12">a&lt;b</span> "c" &amp; '
        '<span class="doubtful" title="confidence 0.49">d</span>'
    )
