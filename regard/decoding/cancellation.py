"""Cancellation: a search checks between steps which of its sentences are still needed and drops the rest.

A server's clients disconnect, deadlines pass. The callback travels in a context variable, so the layers in between
need no extra argument.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Cancelled = Callable[[], Collection[int]]
"""Returns the indices of cancelled sentences (in input order); raises if all of them are."""

_callback: ContextVar[Cancelled | None] = ContextVar("cancelled", default=None)


@contextmanager
def cancellation(cancelled: Cancelled | None) -> Iterator[None]:
    """Searches in this block call `cancelled` between steps. What they return for a cancelled sentence is undefined."""
    token = _callback.set(cancelled)
    try:
        yield
    finally:
        _callback.reset(token)


def cancelled_sentences() -> Collection[int]:
    cancelled = _callback.get()
    return cancelled() if cancelled else ()
