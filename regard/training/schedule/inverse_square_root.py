"""Linear warm-up, then decay with the inverse square root of the step (Vaswani et al. 2017, section 5.3)."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["inverse_square_root"]


def inverse_square_root(learning_rate: float, warmup: int) -> Callable[[int], float]:
    """The paper's curve, scaled so that `learning_rate` is its peak (the paper ties the peak to width and warm-up)."""
    peak = max(1, warmup)

    def at(step: int) -> float:
        return learning_rate * min(step / peak, (peak / max(1, step)) ** 0.5)

    return at
