"""A translation says the same words again and again, as a model does that is caught in a loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from regard.checks._pair import Pair, quoted

LONGEST = 8
"""Words of what is repeated."""
FEW = 3
"""So many words are said twice now and then ("so happy, so happy"): they count if they stand there three times."""


def check(pair: Pair) -> Iterator[str]:
    found = _loop([word.casefold() for word in pair.target_words], 3)
    if found and not _loop([word.casefold() for word in pair.source_words], 2):
        yield f"{quoted(' '.join(found))} is repeated"


def _loop(words: Sequence[str], times_of_few: int) -> Sequence[str]:
    """The first words that are repeated at once."""
    for start in range(len(words)):
        for size in range(1, min(LONGEST, (len(words) - start) // 2) + 1):
            unit = words[start : start + size]
            times = times_of_few if size <= FEW else 2
            if all(words[start + n * size : start + (n + 1) * size] == unit for n in range(1, times)):
                return unit
    return ()
