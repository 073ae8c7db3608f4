"""What formats that make their own examples share: a count, and for each part a generator of its own."""

from __future__ import annotations

import numpy as np

from regard.errors import UserError

PARTS = ("train", "valid", "test")
MOST = 1_000_000


def check_made(count: int, seed: int) -> None:
    if not 1 <= count <= MOST:
        raise UserError(f"data.format.count: wants 1 to {MOST:,} examples, not {count}")
    if seed < 0:
        raise UserError(f"data.format.seed: wants 0 or more, not {seed}")


def random_for(seed: int, part: str) -> np.random.Generator:
    """Parts never share what they draw."""
    return np.random.default_rng([seed, PARTS.index(part)])
