"""Which of their tensors make one of ours: as data, so that the same table imports and exports."""

from __future__ import annotations

from dataclasses import dataclass

SOURCE, TARGET = "source", "target"


@dataclass(frozen=True)
class Entry:
    """One parameter of ours."""

    ours: str
    theirs: tuple[str, ...]
    """Stacked along the first axis."""
    factors: tuple[float, ...] = ()
    """What each of theirs is multiplied by, for a factor that our architecture does not have."""
    rows: str = ""
    """SOURCE or TARGET: the rows are tokens, which are in another order."""
    skip: int = 0
    """Rows at the start of theirs that are never used."""
    flat: bool = False
    """Theirs has a first axis of length one."""
