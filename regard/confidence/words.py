"""The words of a translation: where they are in the text, and the log-probabilities of their tokens."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_WORD = re.compile(r"\S+")


class Word(NamedTuple):
    """A word of a translation with its confidence. `text[start:end]` is the word without the marks around it."""

    start: int
    end: int
    confidence: float


def word_spans(text: str) -> list[tuple[int, int]]:
    """Where words begin and end: what stands between spaces, without the punctuation around it."""
    found = []
    for piece in _WORD.finditer(text):
        start, end = piece.span()
        while start < end and not _belongs(text[start]):
            start += 1
        while end > start and not _belongs(text[end - 1]):
            end -= 1
        if start < end:
            found.append((start, end))
    return found


def _belongs(character: str) -> bool:
    """Letters, digits, and vowel signs and accents, which `isalnum` leaves out."""
    return character.isalnum() or (ord(character) > 127 and unicodedata.category(character) in ("Mn", "Mc"))


def words_of(text: str) -> list[str]:
    """The words in the form in which two texts are compared: without case."""
    return [text[start:end].casefold() for start, end in word_spans(text)]


def words_found(words: Sequence[str], reference: str) -> list[bool]:
    """Whether each word occurs in the reference, wherever it stands there and as often: of two equal words the second
    is found only if the reference has two."""
    left = Counter(words_of(reference))
    found = []
    for word in words:
        found.append(left[word] > 0)
        left[word] -= 1
    return found


def lowest(confidences: Iterable[float | None]) -> float | None:
    """The confidence of a text of several sentences: that of its most doubtful one; None if one is not known."""
    known = list(confidences)
    return None if not known or None in known else min(one for one in known if one is not None)


def rounded(confidence: float | None) -> float | None:
    """For JSON: more digits would mean nothing."""
    return None if confidence is None else round(confidence, 4)


def words_tree(words: Iterable[Word]) -> list[dict[str, float]]:
    """For JSON: where each word is in the text, and its confidence."""
    return [{"start": word.start, "end": word.end, "confidence": round(word.confidence, 4)} for word in words]


def both(first: float | None, second: float | None) -> float | None:
    """The confidence of two steps, each of which must be right; None if one is not known."""
    return None if first is None or second is None else first * second


def joined_words(parts: Iterable[tuple[str, Sequence[Word]]], between: str = " ") -> list[Word]:
    """The words of texts that are joined."""
    found: list[Word] = []
    offset = 0
    for text, words in parts:
        found += (Word(word.start + offset, word.end + offset, word.confidence) for word in words)
        offset += len(text) + len(between)
    return found


class ScoredWord(NamedTuple):
    """A word and the log-probabilities of the tokens that wrote it."""

    start: int
    end: int
    log_probabilities: tuple[float, ...]


def scored_words(text: str, surfaces: Sequence[str], log_probabilities: Sequence[float]) -> list[ScoredWord]:
    """The words of a text that was written token by token.

    `surfaces` are the texts that the tokens add; joined they are the text, up to white space around it. Without that no
    token belongs to a word, and there are none.
    """
    written = "".join(surfaces)
    offset = len(written) - len(written.lstrip())
    if written.strip() != text:
        return []
    spans = word_spans(text)
    of_word: list[list[float]] = [[] for _ in spans]
    position, word = -offset, 0
    for surface, log_probability in zip(surfaces, log_probabilities):
        start, position = position, position + len(surface)
        if surface:
            start += len(surface) - len(surface.lstrip())
        while word < len(spans) and spans[word][1] <= start:
            word += 1
        touched = word
        # A token without text (a byte of a character) belongs to what follows it.
        while touched < len(spans) and spans[touched][0] < max(position, start + 1):
            of_word[touched].append(log_probability)
            touched += 1
    return [ScoredWord(*span, tuple(values)) for span, values in zip(spans, of_word) if values]
