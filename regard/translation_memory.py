"""A translation memory: pairs of source and translation, and those whose source equals or resembles a text.

Candidates share rare words with the text (an inverted index, in memory); those with the highest token edit similarity
are its matches. Knows no model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.data.corpus.reading import is_table, read_pairs, split_column
from regard.data.normalise import normalise, plain
from regard.errors import UserError
from regard.glossary import WORD

THRESHOLD = 0.6
"""The similarity from which on a pair is shown as a match."""
MOST_MATCHES = 3
NEIGHBOURS = 8
"""Pairs that a translation may lean on; they need not be similar as a whole."""
CANDIDATES = 64
"""Pairs that share the rarest words with a text, whose similarity is computed."""
FREQUENT = 0.02
"""Words of more than this share of the sources (and of more than CANDIDATES) find none, unless there are no others."""
LONGEST = 512
"""Tokens of a text that are compared."""

Ids = NDArray[np.int32]


class Match(NamedTuple):
    """A pair of the memory whose source resembles a text."""

    source: str
    target: str
    similarity: float
    """1 minus the edit distance in tokens over the number of tokens of the longer one; case does not count."""


class TranslationMemory:
    """Pairs of a text and its translation, to be found by texts that resemble the first."""

    def __init__(self, pairs: Iterable[tuple[str, str]], *, threshold: float = THRESHOLD, where: str = "the memory"):
        if not 0 < threshold <= 1:
            raise UserError(f"the threshold of a memory lies above 0 and up to 1, not at {threshold}")
        counts = Counter((comparable(source), normalise(target)) for source, target in pairs)
        self.threshold = threshold
        self.pairs: list[tuple[str, str]] = [pair for pair in counts if all(pair)]
        """The different ones, in order."""
        if not self.pairs:
            raise UserError(f"{where}: has no pairs; write lines of TEXT<tab>TRANSLATION")
        self._exact: dict[str, str] = {}
        for source, target in sorted(self.pairs, key=lambda pair: -counts[pair]):  # stable: else the first
            self._exact.setdefault(source, target)
        self._index()

    @classmethod
    def read(cls, path: str | Path, *, threshold: float = THRESHOLD) -> TranslationMemory:
        """Reads a memory.

        Args:
            path: A file of two columns separated by tabs, plain or compressed (.tsv, .tsv.gz, .tsv.xz).
            threshold: The similarity from which on a pair is a match.

        Returns:
            The memory.
        """
        file, column = split_column(path)
        if column is None and not is_table(file):
            raise UserError(f"{path}: a memory is a table of two columns; name it .tsv (or .tsv.gz, .tsv.xz)")
        return cls(read_pairs([path], [], kept=True), threshold=threshold, where=str(path))

    def __len__(self) -> int:
        return len(self.pairs)

    def fingerprint(self) -> str:
        """The same for the same pairs and threshold."""
        digest = sha256(repr(self.threshold).encode())
        for source, target in self.pairs:
            digest.update(f"{source}\t{target}\n".encode("utf-8", "replace"))
        return digest.hexdigest()[:16]

    def exact(self, text: str) -> Match | None:
        """Finds this very text.

        Args:
            text: The text; spaces and the kind of apostrophe do not count.

        Returns:
            The text with its translation, the most frequent one if there are several; None if it is not there.
        """
        same = comparable(text)
        target = self._exact.get(same)
        return None if target is None else Match(same, target, 1.0)

    def matches(self, text: str, most: int = MOST_MATCHES) -> list[Match]:
        """Finds similar texts.

        Args:
            text: The text.
            most: How many to return at most.

        Returns:
            The pairs whose sources are similar enough, the most similar first.
        """
        return [one for one in self.neighbours(text, most) if one.similarity >= self.threshold]

    def neighbours(self, text: str, most: int = NEIGHBOURS) -> list[Match]:
        """The most similar pairs, however similar they are; of equal ones, those of the file first."""
        tokens = [self._vocabulary.get(word, -1) for word in _words(text)][:LONGEST]
        found = self._candidates(tokens)
        if not len(found):
            return []
        similar = self._similarity(np.array(tokens, np.int32), found)
        order = np.lexsort((found, -similar))[:most]
        return [Match(self.pairs[found[i]][0], self.pairs[found[i]][1], float(similar[i])) for i in order]

    def _index(self) -> None:
        """Numbers the words, and lists for each of them the pairs whose source has it."""
        known: dict[str, int] = {}
        rows = [[known.setdefault(word, len(known)) for word in _words(source)][:LONGEST] for source, _ in self.pairs]
        self._vocabulary = known
        self._lengths = np.fromiter(map(len, rows), np.int32, len(rows))
        self._starts = np.concatenate([[0], np.cumsum(self._lengths, dtype=np.int64)])
        self._tokens: Ids = np.fromiter((one for row in rows for one in row), np.int32, int(self._starts[-1]))
        owners = np.repeat(np.arange(len(rows), dtype=np.int64), self._lengths)
        once = np.unique(self._tokens * np.int64(len(rows)) + owners)  # sorted by word, then by pair
        words = once // len(rows)
        self._having: Ids = (once % len(rows)).astype(np.int32)
        self._first = np.searchsorted(words, np.arange(len(known) + 1))

    def _candidates(self, tokens: list[int]) -> Ids:
        """The pairs that share the rarest words with a text: those with the highest sum of log (pairs / pairs with the
        word)."""
        words = sorted({token for token in tokens if token >= 0}, key=lambda word: (self._frequency(word), word))
        rare = [word for word in words if self._frequency(word) <= max(CANDIDATES, FREQUENT * len(self))]
        scores = np.zeros(len(self), np.float32)
        for word in rare or words[:1]:
            scores[self._pairs_with(word)] += np.log(1 + len(self) / self._frequency(word))
        best = np.argpartition(-scores, CANDIDATES)[:CANDIDATES] if len(scores) > CANDIDATES else np.arange(len(scores))
        return best[scores[best] > 0].astype(np.int32)

    def _frequency(self, word: int) -> int:
        return int(self._first[word + 1] - self._first[word])

    def _pairs_with(self, word: int) -> Ids:
        return self._having[self._first[word] : self._first[word + 1]]

    def _similarity(self, tokens: Ids, found: Ids) -> NDArray[np.float64]:
        """1 - edit distance / length of the longer one, for each of the pairs `found`; all of them row by row."""
        lengths = self._lengths[found]
        position = np.arange(int(lengths.max()))
        at = self._starts[found][:, None] + np.minimum(position, lengths[:, None] - 1)
        others = self._tokens[at]
        columns = np.arange(len(position) + 1)
        row = np.broadcast_to(columns, (len(found), len(columns)))
        for number, token in enumerate(tokens, 1):
            replaced = row[:, :-1] + (others != token)
            row = np.concatenate([np.full((len(found), 1), number), np.minimum(replaced, row[:, 1:] + 1)], 1)
            row = np.minimum.accumulate(row - columns, 1) + columns  # or inserted after a cheaper place further left
        distance = row[np.arange(len(found)), lengths]
        similar: NDArray[np.float64] = 1 - distance / np.maximum(lengths, len(tokens))
        return similar


def comparable(text: str) -> str:
    """A source as texts are compared: normalised, with plain apostrophes."""
    return plain(normalise(text))


def _words(text: str) -> list[str]:
    return WORD.findall(comparable(text).lower())
