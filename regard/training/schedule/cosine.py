"""A linear warm-up, then half a cosine wave down to a tenth of the peak at the last step."""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["cosine"]

FLOOR = 0.1


def cosine(learning_rate: float, warmup: int, steps: int) -> Callable[[int], float]:
    """Reaches `learning_rate` at step `warmup` and a tenth of it at step `steps`."""

    def at(step: int) -> float:
        if step < warmup:
            return learning_rate * step / warmup
        done = min(1.0, (step - warmup) / max(1, steps - warmup))
        return learning_rate * (FLOOR + (1 - FLOOR) * 0.5 * (1 + math.cos(math.pi * done)))

    return at
