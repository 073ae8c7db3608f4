"""Shared by formats that generate examples: the check of count and seed, and a random generator per part."""

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
    """A generator for one part; train, valid and test draw independently."""
    return np.random.default_rng([seed, PARTS.index(part)])
