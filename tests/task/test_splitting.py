import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.task._splitting import split_long


def fits(limit):
    return lambda text: len(text) <= limit


def test_sentences_first_then_clauses_then_words_then_anywhere():
    text = "One two. Three, four five six! Seven."
    assert split_long(text, fits(100)) == [text]
    assert split_long(text, fits(22)) == ["One two.", "Three, four five six!", "Seven."]
    assert split_long(text, fits(15)) == ["One two.", "Three,", "four five six!", "Seven."]
    assert split_long("four five six!", fits(10)) == ["four five", "six!"]
    assert split_long("abcdef", fits(3)) == ["abc", "def"]


@given(st.text(alphabet="ab ,.!\u00a0é", max_size=200), st.integers(1, 30))
def test_nothing_is_lost_and_all_parts_fit(text, limit):
    parts = split_long(text, fits(limit))
    assert all(len(part) <= limit for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())


@pytest.mark.timeout(20)
@pytest.mark.parametrize("unit", ["word ", "a. ", ". ", "?!", " ", "» ", "a"])
def test_a_huge_line_is_quick(unit):
    parts = split_long(unit * (200_000 // len(unit)), fits(500))
    assert max(map(len, parts)) <= 500
