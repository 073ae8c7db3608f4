"""Synthetic: sines on a trend with noise, so that part of the next values is predictable."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from regard.data.format._base import Example, Format
from regard.data.format._made import check_made, random_for
from regard.data.format._series import Span
from regard.errors import UserError

__all__ = ["MadeSeries"]

PERIODS = (12, 30)
"""In steps. Every column has both, with random amplitudes and phases."""


class MadeSeries(Format):
    """Each part has `count` series of `steps` rows and its own random generator."""

    def __init__(
        self, count: int = 4, seed: int = 1, steps: int = 400, columns: int = 2, trend: float = 0.01, noise: float = 0.2
    ) -> None:
        check_made(count, seed)
        if not 1 <= columns <= 1000 or not 1 <= steps <= 1_000_000 or count * steps * columns > 100_000_000:
            raise UserError("data.format: count, steps and columns make more than 100 million numbers, or none")
        self.count, self.seed, self.steps, self.columns = count, seed, steps, columns
        self.trend, self.noise = trend, noise

    def read(self, files: Sequence[Path], part: str) -> list[Example]:
        random = random_for(self.seed, part)
        names = tuple(f"made_{number}" for number in range(1, self.columns + 1))
        return [Example(self._series(random), Span(0, names)) for _ in range(self.count)]

    def _series(self, random: np.random.Generator) -> np.ndarray:
        time = np.arange(self.steps)[:, None, None]  # by column and period
        phase, strength = random.uniform(size=(self.columns, 2)), random.uniform(0.5, 1.5, (self.columns, 2))
        values = (strength * np.sin(2 * np.pi * (time / PERIODS + phase))).sum(-1)
        values += self.trend * time[..., 0] * random.uniform(-1, 1, self.columns)
        return (values + self.noise * random.standard_normal(values.shape)).astype(np.float32)
