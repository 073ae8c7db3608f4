"""Random access pseudo-randomness for shuffling: every value is computed from its index alone."""

from __future__ import annotations

import numpy as np


def mixed(numbers: np.ndarray) -> np.ndarray:
    """Hashes 64-bit numbers: every output bit depends on every input bit."""
    for factor in (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93):
        numbers = (numbers ^ numbers >> np.uint64(32)) * np.uint64(factor)
    return numbers ^ numbers >> np.uint64(32)


def permuted(indices: np.ndarray, count: int, *seed: int) -> np.ndarray:
    """The images of some indices under a seeded permutation of 0..count-1 that is never stored.

    A Feistel network permutes the numbers below a power of four that covers `count`; results outside the range go
    through it again until they land inside (cycle walking), which keeps it a permutation.
    """
    half = np.uint64(max(1, (max(count - 1, 1).bit_length() + 1) // 2))
    low = (np.uint64(1) << half) - np.uint64(1)
    keys = np.random.default_rng(seed).integers(0, 2**63, size=6, dtype=np.uint64)
    result = indices.astype(np.uint64)
    outside = np.arange(len(result))
    while len(outside):
        left, right = result[outside] >> half, result[outside] & low
        for key in keys:
            left, right = right, left ^ (mixed(right ^ key) & low)
        result[outside] = left << half | right
        outside = outside[result[outside] >= count]
    return result.astype(np.int64)
