"""Linear warm-up, then half a cosine down to a share of the peak (`floor`) at the last step."""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["cosine"]


def cosine(learning_rate: float, warmup: int, steps: int, floor: float = 0.1) -> Callable[[int], float]:
    """Reaches `learning_rate` at step `warmup` and `floor * learning_rate` at step `steps`."""

    def at(step: int) -> float:
        if step < warmup:
            return learning_rate * step / warmup
        done = min(1.0, (step - warmup) / max(1, steps - warmup))
        return learning_rate * (floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * done)))

    return at
