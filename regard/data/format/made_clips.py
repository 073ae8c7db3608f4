"""Synthetic: clips of a disc that moves over noise, labelled with its activity or with its position in every frame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from regard.data.format._base import Example, Format
from regard.data.format._made import check_made, random_for
from regard.errors import UserError, suggestion

__all__ = ["MadeClips"]

TARGETS = ("activity", "track")
MOST_BYTES = 4_000_000_000
RADIUS = 0.1
"""Of the disc, in widths of the picture, like all coordinates here."""
_NEAR, _FAR = 0.15, 0.85
"""Range of the centre of the disc."""

BAR = 0.4
"""Width of the bar that hides the disc: wide enough to hide all of it for a few frames."""

Path2 = np.ndarray
"""(T, 2): x and y of the centre of the disc, 0 to 1, y downwards."""


def _across(random: np.random.Generator, frames: int, direction: int) -> Path2:
    distance = random.uniform(0.35, 0.7)
    start = random.uniform(_NEAR, _FAR - distance)
    x = start + distance * np.linspace(0, 1, frames)
    return np.stack([x[::direction], np.full(frames, random.uniform(_NEAR, _FAR))], axis=1)


def _circles(random: np.random.Generator, frames: int) -> Path2:
    radius = random.uniform(0.12, 0.3)
    middle = random.uniform(_NEAR + radius, _FAR - radius, 2)
    angles = (
        2 * np.pi * (random.uniform() + random.choice([-1, 1]) * random.uniform(0.8, 1.5) * np.linspace(0, 1, frames))
    )
    return middle + radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)


def _bounces(random: np.random.Generator, frames: int) -> Path2:
    height = random.uniform(0.3, 0.7)
    jumps = np.abs(np.sin(np.pi * (random.uniform() + random.uniform(1.5, 3) * np.linspace(0, 1, frames))))
    return np.stack([np.full(frames, random.uniform(_NEAR, _FAR)), _FAR - height * jumps], axis=1)


def _still(random: np.random.Generator, frames: int) -> Path2:
    return np.tile(random.uniform(_NEAR, _FAR, 2), (frames, 1))


ACTIVITIES: dict[str, Callable[[np.random.Generator, int], Path2]] = {
    "moves left": lambda random, frames: _across(random, frames, -1),
    "moves right": lambda random, frames: _across(random, frames, 1),
    "circles": _circles,
    "bounces": _bounces,
    "stands still": _still,
}


def _flies(random: np.random.Generator, frames: int) -> Path2:
    """Diagonally from side to side at constant speed, bouncing off the walls."""
    side, slope = random.choice([-1, 1]), random.uniform(-0.7, 0.7)
    pace = random.uniform(0.05, 0.08) * np.array([-side, slope])
    start = np.array([0.5 + side * random.uniform(0.3, 0.35), random.uniform(_NEAR, _FAR)])
    room = _FAR - _NEAR
    return _NEAR + room - np.abs((start - _NEAR + pace * np.arange(frames)[:, None]) % (2 * room) - room)


class MadeClips(Format):
    """Frames uint8 (T, size, size, 1) with, by `target`, an activity such as "moves left" or the track: float32 (T, 2).

    For tracking, the disc passes behind a bar of its own brightness, where repeating its last visible position is
    wrong. Each part has `count` clips and its own random generator.
    """

    def __init__(
        self,
        target: str = "activity",
        count: int = 1000,
        seed: int = 1,
        size: int = 24,
        shortest: int = 12,
        longest: int = 20,
        noise: float = 0.15,
    ) -> None:
        check_made(count, seed)
        if target not in TARGETS:
            raise UserError(f"data.format.target: no '{target}'{suggestion(target, TARGETS)}")
        if not 2 <= shortest <= longest <= 500:
            raise UserError(f"data.format: shortest {shortest} and longest {longest} must be 2 to 500, in this order")
        if not 12 <= size <= 256 or count * longest * size**2 > MOST_BYTES:
            raise UserError(
                f"data.format: {count} clips of {longest} frames and size {size}; memory holds fewer (12 to 256)"
            )
        self.target, self.count, self.seed, self.size, self.noise = target, count, seed, size, noise
        self.shortest, self.longest = shortest, longest

    def read(self, files: Sequence[Path], part: str) -> list[Example]:
        random = random_for(self.seed, part)
        return [self._example(random) for _ in range(self.count)]

    def _example(self, random: np.random.Generator) -> Example:
        frames = int(random.integers(self.shortest, self.longest, endpoint=True))
        if self.target == "track":
            places = _flies(random, frames)
            return Example(self._draw(random, places, random.uniform(0.45, 0.55)), places.astype(np.float32))
        name = list(ACTIVITIES)[random.integers(len(ACTIVITIES))]
        return Example(self._draw(random, ACTIVITIES[name](random, frames)), name)

    def _draw(self, random: np.random.Generator, places: Path2, bar: float | None = None) -> np.ndarray:
        middles = (np.arange(self.size) + 0.5) / self.size
        x, y = places[:, 0, None, None], places[:, 1, None, None]
        distance = np.hypot(middles[None, None, :] - x, middles[None, :, None] - y)
        light = np.clip((RADIUS - distance) * self.size + 0.5, 0, 1)  # a smooth rim, as centres lie between pixels
        if bar is not None:
            light[:, :, np.abs(middles - bar) < BAR / 2] = 1.0
        light = 0.1 + 0.8 * light + self.noise * random.standard_normal(light.shape)
        return (255 * light.clip(0, 1)).astype(np.uint8)[..., None]
