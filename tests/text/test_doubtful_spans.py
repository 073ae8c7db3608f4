"""Doubtful words as spans: they never overlap with the tags of a document."""

from __future__ import annotations

from regard.confidence.words import Word
from regard.text.alignment import AlignedText
from regard.text.doubtful_spans import CLOSE, OPEN, as_spans, doubtful, with_marks
from regard.text.word_confidences import Confidences


def test_marks_become_spans_in_order() -> None:
    found = AlignedText("He is old.", None, Confidences(0.5, (Word(0, 2, 0.1), Word(3, 5, 0.9), Word(6, 9, 0.2))))
    assert doubtful(found, 0.5) == [0.1, 0.2]
    marked = with_marks(found, 0.5)
    assert marked.text == f"{OPEN}He{CLOSE} is {OPEN}old{CLOSE}." and marked.confidences is found.confidences
    spans = '<span class="doubtful" title="confidence 0.10">He</span> is <span class="doubtful" title="confidence 0.20">old</span>.'
    assert as_spans(marked.text, [0.1, 0.2]) == spans
    assert with_marks(AlignedText("He"), 0.5) == AlignedText("He")


def test_a_mark_with_a_tag_inside_is_dropped_and_the_next_keeps_its_confidence() -> None:
    html = f"{OPEN}o<b>ne</b>{CLOSE} {OPEN}two{CLOSE}"
    assert as_spans(html, [0.1, 0.2]) == 'o<b>ne</b> <span class="doubtful" title="confidence 0.20">two</span>'


def test_tags_around_a_word_stay_around_its_span() -> None:
    html = f"{OPEN}<b><i>one</i>{CLOSE}</b> {OPEN}two{CLOSE}"
    one, two = (f'<span class="doubtful" title="confidence 0.{n}0">' for n in "12")
    assert as_spans(html, [0.1, 0.2]) == f"<b><i>{one}one</span></i></b> {two}two</span>"
