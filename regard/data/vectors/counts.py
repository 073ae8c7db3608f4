"""Counts co-occurrences: the co-occurrence matrix of a text and its vocabulary.

The text is read once and kept as ids (four bytes per word); windows do not cross lines.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from regard.data.normalise import normalise
from regard.data.word_spans import word_spans
from regard.errors import UserError

Split = Callable[[str], list[str]]

PART = 1 << 20
"""Words counted at a time."""
LARGEST = 2_000_000
"""Largest vocabulary."""
WIDEST = 1000
"""Widest window, in words to each side."""


@dataclass(frozen=True)
class Text:
    """Lines as ids. Rare words are -1: they have no row but keep their position in windows."""

    words: list[str]
    """The vocabulary by frequency, ties in alphabetical order."""
    counts: np.ndarray
    """(V,): frequency of each word."""
    ids: np.ndarray
    """All lines concatenated."""
    lines: np.ndarray
    """The line number of each id."""


@dataclass(frozen=True)
class CoOccurrence:
    """The non-zero entries of the matrix: X[rows[n], columns[n]] = values[n]."""

    words: list[str]
    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray

    def __len__(self) -> int:
        return len(self.values)

    def matrix(self) -> np.ndarray:
        """The dense matrix, for small vocabularies."""
        whole = np.zeros((len(self.words), len(self.words)))
        whole[self.rows, self.columns] = self.values
        return whole


def words_and_marks(text: str) -> list[str]:
    """The words and punctuation marks of a line."""
    text = normalise(text)
    return [text[begin:end] for begin, end in word_spans(text)]


def lower_words(text: str) -> list[str]:
    return words_and_marks(text.lower())


def numbered(lines: Iterable[str], split: Split = lower_words, size: int = 50_000, min_count: int = 1) -> Text:
    """Reads a text once. The vocabulary is the `size` most frequent words that occur at least `min_count` times."""
    if not 1 <= size <= LARGEST:
        raise UserError(f"a vocabulary has 1 to {LARGEST:,} words, not {size:,}")
    seen: dict[str, int] = {}
    ids, lengths = array("i"), array("i")
    for line in lines:
        before = len(ids)
        ids.extend([seen.setdefault(word, len(seen)) for word in split(line)])
        lengths.append(len(ids) - before)
    found = np.frombuffer(ids, dtype=np.int32) if ids else np.zeros(0, np.int32)
    each = np.bincount(found, minlength=len(seen))
    names = list(seen)
    order = sorted(range(len(names)), key=lambda i: (-each[i], names[i]))
    kept = [i for i in order[:size] if each[i] >= min_count]
    if not kept:
        raise UserError(f"the corpus has no word that occurs {min_count} times" if names else "the corpus is empty")
    new = np.full(len(names), -1, np.int32)
    new[kept] = np.arange(len(kept), dtype=np.int32)
    owners = np.repeat(np.arange(len(lengths), dtype=np.int32), np.frombuffer(lengths, dtype=np.int32))
    return Text([names[i] for i in kept], each[kept], new[found], owners)


def co_occurrence(
    text: Text, window: int = 10, by_distance: bool = True, progress: Callable[[int, int, str], None] | None = None
) -> CoOccurrence:
    """Counts pairs of words at most `window` words apart in a line; the matrix is symmetric.

    With `by_distance` a pair k words apart counts 1/k (Pennington et al. 2014, 4.2), otherwise 1.
    """
    if not 1 <= window <= WIDEST:
        raise UserError(f"a window has 1 to {WIDEST:,} words to each side, not {window:,}")
    size = len(text.words)
    keys, values = np.zeros(0, np.int64), np.zeros(0)
    waiting: list[tuple[np.ndarray, np.ndarray]] = []
    for begin in range(0, len(text.ids), PART):
        waiting.append(_pairs(text, begin, min(begin + PART, len(text.ids)), window, by_distance))
        if sum(len(part) for part, _ in waiting) >= max(len(keys), PART) or begin + PART >= len(text.ids):
            keys, values = _summed([(keys, values), *waiting])
            waiting = []
        if progress:
            progress(min(begin + PART, len(text.ids)), len(text.ids), "counting words")
    rows, columns = keys // size, keys % size  # each pair once, the more frequent word first
    apart = rows != columns
    return CoOccurrence(
        text.words,
        np.concatenate([rows, columns[apart]]),
        np.concatenate([columns, rows[apart]]),
        np.concatenate([np.where(apart, values, 2 * values), values[apart]]),  # a word next to itself counts twice
    )


def _pairs(text: Text, begin: int, end: int, window: int, by_distance: bool) -> tuple[np.ndarray, np.ndarray]:
    """The summed pairs whose first word is between two positions of the text."""
    found = []
    for distance in range(1, window + 1):
        stop = min(end, len(text.ids) - distance)
        if stop <= begin:
            break
        here, there = slice(begin, stop), slice(begin + distance, stop + distance)
        one, other = text.ids[here], text.ids[there]
        both = (one >= 0) & (other >= 0) & (text.lines[here] == text.lines[there])
        low, high = np.minimum(one, other)[both].astype(np.int64), np.maximum(one, other)[both]
        found.append((low * len(text.words) + high, np.full(len(low), 1 / distance if by_distance else 1.0)))
    return _summed(found)


def _summed(parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Sums the values of equal keys."""
    if not parts:
        return np.zeros(0, np.int64), np.zeros(0)
    keys, values = (np.concatenate(side) for side in zip(*parts))
    order = np.argsort(keys)
    keys, values = keys[order], values[order]
    if not len(keys):
        return keys, values
    begins = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    return keys[begins], np.add.reduceat(values, begins)
