"""Which pairs are worth training on. Every pair that is dropped is counted under the name of its reason."""

from __future__ import annotations

import functools
import hashlib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from regard.data.corpus.reading import Pair
from regard.data.normalise import normalise


def longest_text(max_length: int) -> int:
    """Characters of a side that can have `max_length` tokens or fewer; more are neither kept nor tokenised."""
    return max(4096, 32 * max_length)


class Filters:
    """Pairs go through `by_size` and `by_text`, are tokenised, and go through `by_length`.

    `dropped` says how many fell, and why.
    """

    def __init__(
        self,
        *,
        max_length: int = 128,
        max_ratio: float = 4.0,
        drop_duplicates: bool = True,
        drop_identical: bool = True,
        drop_wrong_script: bool = True,
    ) -> None:
        self.dropped: Counter[str] = Counter()
        self._max_length = max_length
        self._max_ratio = max_ratio
        self._drop_identical = drop_identical
        self._seen = Seen() if drop_duplicates else None
        self._scripts: tuple[UsualScript, UsualScript] | None = None
        self._drop_wrong_script = drop_wrong_script

    def by_size(self, pairs: Sequence[Pair]) -> list[Pair]:
        """The pairs that are worth looking at: without those so long that no tokenizer could make them fit."""
        longest = longest_text(self._max_length)
        kept = [pair for pair in pairs if len(pair[0]) <= longest and len(pair[1]) <= longest]
        if len(kept) < len(pairs):
            self._count("endless", pairs, kept)
        return kept

    def by_text(self, pairs: Iterable[Pair]) -> list[Pair]:
        """The pairs of a chunk that stay, normalised. The first chunk decides what a side's usual script is."""
        clean = [(normalise(source), normalise(target)) for source, target in pairs]
        kept = [pair for pair in clean if pair[0] and pair[1]]
        self._count("empty", clean, kept)
        if self._drop_identical:
            clean, kept = kept, [pair for pair in kept if not _identical(*pair)]
            self._count("identical", clean, kept)
        if self._drop_wrong_script and kept:
            if self._scripts is None:
                self._scripts = UsualScript(pair[0] for pair in kept), UsualScript(pair[1] for pair in kept)
            source_script, target_script = self._scripts
            clean, kept = kept, [(s, t) for s, t in kept if source_script.fits(s) and target_script.fits(t)]
            self._count("wrong_script", clean, kept)
        if self._seen is not None and kept:
            new = self._seen.add([f"{source}\n{target}" for source, target in kept])
            clean, kept = kept, [pair for pair, is_new in zip(kept, new.tolist(), strict=True) if is_new]
            self._count("duplicate", clean, kept)
        return kept

    def by_length(self, source_lengths: np.ndarray, target_lengths: np.ndarray) -> np.ndarray:
        """True where both sides have 1 to `max_length` tokens and neither dwarfs the other."""
        longer, shorter = np.maximum(source_lengths, target_lengths), np.minimum(source_lengths, target_lengths)
        long = longer > self._max_length
        # A few tokens more or less mean little in a short pair, so a difference of up to 5 is always fine.
        ratio = ~long & ((shorter == 0) | ((longer > self._max_ratio * shorter) & (longer - shorter > 5)))
        self.dropped["too_long"] += int(long.sum())
        self.dropped["ratio"] += int(ratio.sum())
        return ~(long | ratio)

    def _count(self, reason: str, before: Sequence[Pair], after: Sequence[Pair]) -> None:
        self.dropped[reason] += len(before) - len(after)


def _identical(source: str, target: str) -> bool:
    """The same words twice: not translated. Short ones (names, numbers) may well be the same in both languages."""
    return source.lower() == target.lower() and source.count(" ") >= 3


class UsualScript:
    """The scripts that hold at least a tenth of the letters of a sample, and whether a text is mostly in them."""

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
    """LATIN, CYRILLIC, ARABIC, CJK, HIRAGANA...: the first word of a letter's Unicode name; "" for all but letters."""
    return unicodedata.name(character, "").partition(" ")[0] if character.isalpha() else ""


class Seen:
    """A Bloom filter: remembers texts in memory that never grows, at the price of a few false memories.

    64 MB and 5 bits a text: about 1 in 200,000 new texts is taken for an old one after 10 million, 1 in 1,000 after 30.
    """

    def __init__(self, bits: int = 2**29, probes: int = 5) -> None:
        self._bits = np.uint64(bits)
        self._table = np.zeros(bits // 8, dtype=np.uint8)
        self._steps = np.arange(probes, dtype=np.uint64)

    def add(self, texts: Sequence[str]) -> np.ndarray:
        """Adds a chunk; True where a text is new, that is neither in an earlier chunk nor earlier in this one."""
        digests = b"".join(hashlib.blake2b(text.encode(), digest_size=16).digest() for text in texts)
        hashes = np.frombuffer(digests, dtype="<u8").reshape(-1, 2)
        new = np.zeros(len(texts), dtype=bool)
        new[np.unique(hashes[:, 0], return_index=True)[1]] = True
        places = (hashes[:, :1] + self._steps * (hashes[:, 1:] | np.uint64(1))) % self._bits
        bytes_, bits = places >> np.uint64(3), np.uint8(1) << (places & np.uint64(7)).astype(np.uint8)
        new &= ~(self._table[bytes_] & bits).astype(bool).all(axis=1)
        np.bitwise_or.at(self._table, bytes_[new], bits[new])
        return new
