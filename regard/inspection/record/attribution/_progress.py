"""A callback that hears how far an attribution is: it may take a minute for a long sentence or a large model.

It travels in a context variable, as in decoding/step_callback.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_callback: ContextVar[Callable[[int, int], None] | None] = ContextVar("attribution_progress", default=None)


@contextmanager
def on_progress(callback: Callable[[int, int], None]) -> Iterator[None]:
    """Context in which `callback(points, at most)` is called after each section of the path, or each batch of units."""
    token = _callback.set(callback)
    try:
        yield
    finally:
        _callback.reset(token)


def report(done: int, most: int) -> None:
    if callback := _callback.get():
        callback(done, most)
