"""A callback that receives every step of a search: which beams stay open and which hypotheses finish.

The callback travels in a context variable, as in cancellation.py. A search with a callback runs without CUDA graphs,
because a replayed graph calls no Python; its results are the same.
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
    """One step of a search. Beam r continues beam `parents[r]` of the step before; the first step has one open beam.

    A beam with no continuation has -inf in `totals`.
    """

    parents: Int[Tensor, "B beams"]
    tokens: Int[Tensor, "B beams"]
    totals: Float[Tensor, "B beams"]
    """Log-probabilities of the beams that are open after the step."""
    ends: Float[Tensor, "B before"]
    """The log-probability of each beam of the step before if it ends here; -inf where that was not considered."""
    scores: Float[Tensor, "B before"]
    """The same after the length penalty."""
    kept: Bool[Tensor, "B before"]
    """Which of these finished hypotheses are among the best so far."""


StepCallback = Callable[[Step], None]

_callback: ContextVar[StepCallback | None] = ContextVar("step_callback", default=None)


@contextmanager
def on_step(callback: StepCallback) -> Iterator[None]:
    """Searches in this block call `callback` after every step."""
    token = _callback.set(callback)
    try:
        yield
    finally:
        _callback.reset(token)


def step_callback() -> StepCallback | None:
    return _callback.get()
