"""Holds out validation and test pairs. They are chosen by the hash of their target, so every run chooses the same.

Pairs with the same target stay together, and training (`HeldOut.has`) avoids every pair that shares either side with a
held-out one, up to case and normalisation: no tested text was ever trained on.
"""

from __future__ import annotations

import hashlib
import heapq
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from regard.data.corpus.reading import Pair
from regard.data.normalise import normalise


class HeldOut:
    """The texts of held-out pairs, which training avoids."""

    def __init__(self, pairs: Iterable[Pair]) -> None:
        self.sources: set[int] = set()
        self.targets: set[int] = set()
        """The hashes of the texts."""
        for source, target in pairs:
            self.sources.add(text_hash(source))
            self.targets.add(text_hash(target))

    @classmethod
    def of_hashes(cls, sources: Iterable[int], targets: Iterable[int]) -> HeldOut:
        held = cls([])
        held.sources, held.targets = set(sources), set(targets)
        return held

    def has(self, source: str, target: str) -> bool:
        return text_hash(target) in self.targets or text_hash(source) in self.sources


def choose(pairs: Iterable[Pair], counts: Sequence[int], longest: int = 4096) -> list[list[Pair]]:
    """Disjoint sets of `counts` pairs, each at most a tenth of all pairs, without a target in two sets; one pass.

    Groups of pairs with the same target are taken by hash, smallest first. A set is cut at its count; the rest of its
    last group is unused, as `HeldOut` bars it from training. Pairs with a text of more than `longest` characters are
    never held out, which bounds memory.
    """
    # Every set may waste part of its last group.
    enough = sum(counts) + len(counts) * max(counts)
    groups: dict[int, list[Pair]] = {}
    largest: list[int] = []  # a heap of negated hashes
    seen = kept = 0
    for source, target in pairs:
        if max(len(source), len(target)) > longest:
            continue
        pair = normalise(source), normalise(target)
        if not (pair[0] and pair[1]):
            continue
        seen += 1
        hash_ = text_hash(target)
        if hash_ not in groups:
            groups[hash_] = []
            heapq.heappush(largest, -hash_)
        group = groups[hash_]
        kept -= len(group)
        at = bisect_left(group, pair)
        if group[at : at + 1] != [pair]:
            group.insert(at, pair)
            del group[max(counts) :]  # no set can hold more, and "Yes." may occur a million times
        kept += len(group)
        while groups and kept - len(groups[-largest[0]]) >= enough:
            kept -= len(groups.pop(-heapq.heappop(largest)))
    ordered = iter(sorted(groups))
    sets: list[list[Pair]] = []
    for count in counts:
        limit = min(count, seen // 10)
        chosen: list[Pair] = []
        while len(chosen) < limit and (hash_ := next(ordered, -1)) >= 0:
            chosen += groups[hash_][: limit - len(chosen)]
        sets.append(chosen)
    return sets


def text_hash(text: str) -> int:
    """A 64-bit hash of the text that ignores case and normalisation."""
    return int.from_bytes(hashlib.blake2b(normalise(text).lower().encode(), digest_size=8).digest(), "big")
