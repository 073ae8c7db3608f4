"""Pairs of two languages through a third: translations of the same sentence are translations of each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from regard.data.corpus.reading import Pair


def join_pairs(first: Iterable[Pair], second: Iterable[Pair], most: int = 2) -> Iterator[Pair]:
    """The targets of two corpora whose sources are equal, in the order of the second; each pair once.

    A sentence with many translations on both sides gives `most` pairs. The first corpus is held in memory.
    """
    targets: dict[str, list[str]] = {}
    for source, target in first:
        known = targets.setdefault(source, [])
        if target not in known:
            known.append(target)
    given: dict[str, int] = {}
    seen: set[Pair] = set()
    for source, target in second:
        for other in targets.get(source, ()):
            if given.get(source, 0) >= most:
                break
            if (pair := (other, target)) not in seen:
                seen.add(pair)
                given[source] = given.get(source, 0) + 1
                yield pair
