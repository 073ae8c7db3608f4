"""A linear warm-up, then the same learning rate for ever."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["constant"]


def constant(learning_rate: float, warmup: int, steps: int) -> Callable[[int], float]:
    """`learning_rate` from step `warmup` on."""
    del steps

    def at(step: int) -> float:
        return learning_rate * min(1.0, step / max(1, warmup))

    return at
