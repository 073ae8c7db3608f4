"""Linear warm-up, then a constant learning rate."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["constant"]


def constant(learning_rate: float, warmup: int) -> Callable[[int], float]:
    """`learning_rate` from step `warmup` on."""

    def at(step: int) -> float:
        return learning_rate * min(1.0, step / max(1, warmup))

    return at
