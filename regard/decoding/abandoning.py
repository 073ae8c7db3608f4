"""Searches that nobody waits for any more: whoever started one may say so while it runs.

A server's clients go away, and time runs out. So a search asks between its steps which of its sentences are still
wanted. Who is asked is kept beside the search rather than handed down to it, since what lies between need not know.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Gone = Callable[[], Collection[int]]
"""The numbers of sentences (from 0, in the order they were given) that are not wanted any more; or it raises, and
nothing is."""

_asked: ContextVar[Gone | None] = ContextVar("asked", default=None)


@contextmanager
def abandoning(gone: Gone | None) -> Iterator[None]:
    """Searches in this block ask `gone`. What they find for a sentence given up has no meaning."""
    token = _asked.set(gone)
    try:
        yield
    finally:
        _asked.reset(token)


def abandoned() -> Collection[int]:
    gone = _asked.get()
    return gone() if gone else ()
