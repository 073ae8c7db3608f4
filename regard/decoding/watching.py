"""Searches that somebody looks at: what each step kept open and what it ended, told as it happens.

Who watches is kept beside the search rather than handed down to it, as with abandoning.py. Watching changes only speed:
a search that is watched is not recorded as a graph, since a graph tells nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass
class Step:
    """One step of a search. Row r of a step went on from row `parents[r]` of the step before; at first one row is open.

    A row that leads nowhere has -inf in `totals`.
    """

    parents: Int[Tensor, "B rows"]
    tokens: Int[Tensor, "B rows"]
    totals: Float[Tensor, "B rows"]
    """Log-probabilities of what is open after the step."""
    ends: Float[Tensor, "B before"]
    """The log-probability that each row of the step before has if it ends here; -inf where that was not asked."""
    scores: Float[Tensor, "B before"]
    """The same after the length penalty."""
    kept: Bool[Tensor, "B before"]
    """Which of these ends are among the best so far."""


Told = Callable[[Step], None]

_told: ContextVar[Told | None] = ContextVar("told", default=None)


@contextmanager
def watching(told: Told) -> Iterator[None]:
    """Searches in this block tell every step."""
    token = _told.set(told)
    try:
        yield
    finally:
        _told.reset(token)


def watcher() -> Told | None:
    return _told.get()
