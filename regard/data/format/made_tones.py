"""Synthetic: sequences of pure tones and their names, such as "low high mid", in place of speech."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from regard.data.format._base import Example, Format
from regard.data.format._made import check_made, random_for
from regard.data.input.sound import Sound, check_rate
from regard.errors import UserError

__all__ = ["MadeTones"]

TONES = {"low": 300.0, "mid": 600.0, "high": 1200.0}
"""In hertz; every tone is off by up to a tenth."""


class MadeTones(Format):
    """One to `longest` tones of random length and loudness, with short rests between them and noise.

    Each part has `count` examples and its own random generator.
    """

    def __init__(
        self, count: int = 1000, seed: int = 1, longest: int = 4, noise: float = 0.05, rate: int = 8000
    ) -> None:
        check_made(count, seed)
        check_rate(rate, "data.format.rate")
        if not 1 <= longest <= 100:
            raise UserError(f"data.format.longest: wants 1 to 100 tones, not {longest}")
        self.count, self.seed, self.longest, self.noise, self.rate = count, seed, longest, noise, rate

    def read(self, files: Sequence[Path], part: str) -> list[Example]:
        random = random_for(self.seed, part)
        return [self._example(random) for _ in range(self.count)]

    def _example(self, random: np.random.Generator) -> Example:
        names = random.choice(list(TONES), size=random.integers(1, self.longest, endpoint=True)).tolist()
        pieces = [self._rest(random)]
        for name in names:
            pieces += [self._tone(random, TONES[name] * random.uniform(0.9, 1.1)), self._rest(random)]
        samples = np.concatenate(pieces)
        samples = samples + self.noise * random.uniform(0, 1) * random.standard_normal(len(samples))
        return Example(Sound(samples.clip(-1, 1).astype(np.float32), self.rate), " ".join(names))

    def _tone(self, random: np.random.Generator, pitch: float) -> np.ndarray:
        time = np.arange(int(self.rate * random.uniform(0.08, 0.2))) / self.rate
        swell = np.minimum(1, np.minimum(time, time[::-1]) / 0.01)  # fades in and out, without clicks
        return random.uniform(0.2, 0.8) * swell * np.sin(2 * np.pi * (pitch * time + random.uniform()))

    def _rest(self, random: np.random.Generator) -> np.ndarray:
        return np.zeros(int(self.rate * random.uniform(0.03, 0.1)))
