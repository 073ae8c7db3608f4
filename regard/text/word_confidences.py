"""The confidences of words through edits of a text: placeholders that are restored, sentences that are joined."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from regard.confidence.words import Word, joined_words, lowest


class Confidences(NamedTuple):
    """Of a text and of its words."""

    whole: float | None
    words: tuple[Word, ...] = ()


def edited(known: Confidences, slices: Iterable[tuple[str, str]]) -> Confidences:
    """After an edit, given as slices (before, after). A word that was replaced, in whole or in part, has none: what
    stands there now was copied."""
    moved: list[Word] = []
    words = list(known.words)
    old = new = number = 0
    for before, after in slices:
        while number < len(words) and words[number].start < old + len(before):
            word = words[number]
            if before == after and word.start >= old and word.end <= old + len(before):
                moved.append(Word(word.start - old + new, word.end - old + new, word.confidence))
            number += 1
        old, new = old + len(before), new + len(after)
    return Confidences(known.whole, tuple(moved))


def concatenated(parts: Iterable[tuple[str, Confidences | None]]) -> Confidences | None:
    """Of texts one after the other; parts without confidences were not translated. None if there are no others."""
    listed = list(parts)
    known = [one for _, one in listed if one is not None]
    if not known:
        return None
    words = joined_words(((text, one.words if one else ()) for text, one in listed), "")
    return Confidences(lowest(one.whole for one in known), tuple(words))
