"""Filters for parallel text. Every dropped pair is counted under the name of its reason."""

from __future__ import annotations

import functools
import hashlib
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from regard.data.corpus.reading import Pair
from regard.data.normalise import normalise


def longest_text(max_length: int) -> int:
    """Most characters of a text that could have `max_length` tokens; longer ones are dropped without tokenising."""
    return max(4096, 32 * max_length)


class Filters:
    """Pairs go through `by_size` and `by_text`, are tokenised, and go through `by_length`.

    `dropped` counts them by reason.
    """

    def __init__(
        self,
        *,
        max_length: int = 128,
        max_ratio: float = 4.0,
        drop_duplicates: bool = True,
        drop_identical: bool = True,
        drop_wrong_script: bool = True,
        is_new: Callable[[Sequence[Pair]], np.ndarray] | None = None,
    ) -> None:
        """`is_new` tells which pairs of a chunk did not occur before; by default, among these filters' own."""
        self.dropped: Counter[str] = Counter()
        self.examples: dict[str, Pair] = {}
        """The first pair dropped for each reason."""
        self._max_length = max_length
        self._max_ratio = max_ratio
        self._drop_identical = drop_identical
        self._is_new = (is_new or new_pairs(BloomFilter())) if drop_duplicates else None
        self._scripts: tuple[UsualScript, UsualScript] | None = None
        self._drop_wrong_script = drop_wrong_script

    def by_size(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Drops pairs so long that no tokenizer could make them fit."""
        longest = longest_text(self._max_length)
        kept = [pair for pair in pairs if len(pair[0]) <= longest and len(pair[1]) <= longest]
        if len(kept) < len(pairs):
            self._count("endless", pairs, kept)
        return kept

    def by_text(self, pairs: Iterable[Pair]) -> list[Pair]:
        """Normalises and filters a chunk. The first chunk decides the usual script of each side."""
        clean = [(normalise(source), normalise(target)) for source, target in pairs]
        kept = [pair for pair in clean if pair[0] and pair[1]]
        self._count("empty", clean, kept)
        if self._drop_identical:
            clean, kept = kept, [pair for pair in kept if not identical(*pair)]
            self._count("identical", clean, kept)
        if self._drop_wrong_script and kept:
            if self._scripts is None:
                self._scripts = UsualScript(pair[0] for pair in kept), UsualScript(pair[1] for pair in kept)
            source_script, target_script = self._scripts
            clean, kept = kept, [pair for pair in kept if source_script.fits(pair[0]) and target_script.fits(pair[1])]
            self._count("wrong_script", clean, kept)
        if self._is_new is not None and kept:
            new = self._is_new(kept).tolist()
            clean, kept = kept, [pair for pair, is_new in zip(kept, new, strict=True) if is_new]
            self._count("duplicate", clean, kept)
        return kept

    def by_length(
        self, source_lengths: np.ndarray, target_lengths: np.ndarray, pairs: Sequence[Pair] = ()
    ) -> np.ndarray:
        """True where both sides have 1 to `max_length` tokens and their ratio is within `max_ratio`."""
        longer, shorter = np.maximum(source_lengths, target_lengths), np.minimum(source_lengths, target_lengths)
        long = longer > self._max_length
        ratio = ~long & ((shorter == 0) | disproportionate(source_lengths, target_lengths, self._max_ratio))
        self.dropped["too_long"] += int(long.sum())
        self.dropped["ratio"] += int(ratio.sum())
        for reason, bad in (("too_long", long), ("ratio", ratio)):
            if pairs and reason not in self.examples and bad.any():
                self.examples[reason] = pairs[int(bad.argmax())]
        return ~(long | ratio)

    def _count(self, reason: str, before: Sequence[Pair], after: Sequence[Pair]) -> None:
        """`after` is `before` without some pairs."""
        self.dropped[reason] += len(before) - len(after)
        if len(after) < len(before) and reason not in self.examples:
            self.examples[reason] = next(
                (one for one, other in zip(before, after) if one is not other), before[len(after)]
            )


def disproportionate(lengths: np.ndarray, others: np.ndarray, max_ratio: float, grace: int = 5) -> np.ndarray:
    """True where lengths differ by more than a factor. In short pairs it means little: a difference of up to `grace`
    always passes."""
    longer, shorter = np.maximum(lengths, others), np.minimum(lengths, others)
    return (longer > max_ratio * shorter) & (longer - shorter > grace)


def identical(source: str, target: str) -> bool:
    """Whether a pair was not translated. Short texts (names, numbers) may be the same in both languages."""
    return source.lower() == target.lower() and source.count(" ") >= 3


def new_pairs(seen: BloomFilter, directions: Sequence[tuple[str, str]] = ()) -> Callable[[Sequence[Pair]], np.ndarray]:
    """Which pairs of a chunk are new, to a set that several corpora may share.

    `directions` are those that the pairs serve, if they serve two, the second backwards; one is enough to be new in.
    """

    def is_new(pairs: Sequence[Pair]) -> np.ndarray:
        if not directions:
            return seen.add([f"{source}\n{target}" for source, target in pairs])
        new = np.zeros(len(pairs), dtype=bool)
        for turn, (start, to) in enumerate(directions):
            ordered = (pair[::-1] for pair in pairs) if turn else pairs
            new |= seen.add([f"{start}-{to}:{source}\n{target}" for source, target in ordered])
        return new

    return is_new


class UsualScript:
    """The scripts of at least a tenth of a sample's letters; tells whether a text is mostly in them."""

    def __init__(self, texts: Iterable[str]) -> None:
        letters: Counter[str] = Counter()
        for text in texts:
            letters.update(text)
        scripts: Counter[str] = Counter()
        for character, count in letters.items():
            scripts[script(character)] += count
        del scripts[""]
        self.names = {name for name, count in scripts.items() if count >= 0.1 * scripts.total()} | {""}
        self._fine = {character for character in letters if script(character) in self.names}

    def fits(self, text: str) -> bool:
        if self._fine.issuperset(text):
            return True
        scripts = [script(character) for character in text]
        letters = len(scripts) - scripts.count("")
        return 2 * sum(name != "" and name in self.names for name in scripts) >= letters


@functools.cache
def script(character: str) -> str:
    """LATIN, CYRILLIC, ARABIC, CJK, HIRAGANA...: the first word of a letter's Unicode name; "" for non-letters."""
    return unicodedata.name(character, "").partition(" ")[0] if character.isalpha() else ""


class BloomFilter:
    """A set of texts in constant memory with a few false positives.

    64 MB and 5 bits per text: about 1 in 200,000 new texts is taken for an old one after 10 million, 1 in 1,000 after
    30 million.
    """

    def __init__(self, bits: int = 2**29, probes: int = 5) -> None:
        self._bits = np.uint64(bits)
        self._table = np.zeros(bits // 8, dtype=np.uint8)
        self._steps = np.arange(probes, dtype=np.uint64)

    def add(self, texts: Sequence[str]) -> np.ndarray:
        """Adds a chunk; True for texts that are neither in an earlier chunk nor earlier in this one."""
        digests = b"".join(hashlib.blake2b(text.encode(), digest_size=16).digest() for text in texts)
        hashes = np.frombuffer(digests, dtype="<u8").reshape(-1, 2)
        new = np.zeros(len(texts), dtype=bool)
        new[np.unique(hashes[:, 0], return_index=True)[1]] = True
        places = (hashes[:, :1] + self._steps * (hashes[:, 1:] | np.uint64(1))) % self._bits
        bytes_, bits = places >> np.uint64(3), np.uint8(1) << (places & np.uint64(7)).astype(np.uint8)
        new &= ~(self._table[bytes_] & bits).astype(bool).all(axis=1)
        np.bitwise_or.at(self._table, bytes_[new], bits[new])
        return new
