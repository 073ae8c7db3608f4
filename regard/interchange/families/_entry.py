"""Which of their tensors make one of ours: as data, so that the same table imports and exports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

SOURCE, TARGET = "source", "target"


@dataclass(frozen=True)
class Entry:
    """One parameter of ours."""

    ours: str
    theirs: tuple[str, ...]
    """Stacked along the first axis. None: ours is not in their files, and `make` needs no tensor of theirs."""
    factors: tuple[float, ...] = ()
    """What each of theirs is multiplied by, for a factor that our architecture does not have."""
    rows: str = ""
    """SOURCE or TARGET: the rows are tokens, which are in another order."""
    skip: int = 0
    """Rows at the start of theirs that are never used."""
    flat: bool = False
    """Theirs has a first axis of length one."""
    shapes: tuple[tuple[int, ...], ...] = ()
    """The shapes of theirs, where they are not equal parts of ours. Needed with `make`."""
    make: Callable[..., Tensor] | None = None
    """Ours, made of theirs, where it is not their rows one after the other."""
    split: Callable[[Tensor], tuple[Tensor, ...]] | None = None
    """The inverse of `make`, for families that are exported."""
