"""Synthetic: noisy readings of a few sensors that swing, jerk, climb or rest, and the name of the motion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from regard.data.format._base import Example, Format
from regard.data.format._made import check_made, random_for
from regard.errors import UserError

__all__ = ["MadeMotion"]

MOTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "swings": lambda turns: np.sin(2 * np.pi * turns),
    "jerks": lambda turns: np.sign(np.sin(2 * np.pi * turns)),
    "climbs": lambda turns: 2 * (turns % 1) - 1,
    "rests": np.zeros_like,
}
"""A sensor's reading by the number of periods: a sine, a square wave, a ramp, zero."""


class MadeMotion(Format):
    """Sensors differ in amplitude and phase and share one frequency, like parts of one body.

    Each part has `count` examples and its own random generator.
    """

    def __init__(
        self,
        count: int = 1000,
        seed: int = 1,
        sensors: int = 3,
        shortest: int = 30,
        longest: int = 60,
        noise: float = 0.3,
    ) -> None:
        check_made(count, seed)
        if not 1 <= shortest <= longest <= 10_000:
            raise UserError(
                f"data.format: shortest {shortest} and longest {longest} must be 1 to 10,000, in this order"
            )
        if not 1 <= sensors <= 1000:
            raise UserError(f"data.format.sensors: wants 1 to 1000, not {sensors}")
        self.count, self.seed, self.sensors, self.noise = count, seed, sensors, noise
        self.shortest, self.longest = shortest, longest

    def read(self, files: Sequence[Path], part: str) -> list[Example]:
        random = random_for(self.seed, part)
        return [self._example(random) for _ in range(self.count)]

    def _example(self, random: np.random.Generator) -> Example:
        name = list(MOTIONS)[random.integers(len(MOTIONS))]
        steps = np.arange(random.integers(self.shortest, self.longest, endpoint=True))[:, None]
        turns = steps / random.uniform(8, 16) + random.uniform(size=self.sensors)
        strength = random.uniform(0.5, 1.5, self.sensors) * random.choice([-1, 1], self.sensors)
        values = strength * MOTIONS[name](turns) + self.noise * random.standard_normal(turns.shape)
        return Example(values.astype(np.float32), name)
