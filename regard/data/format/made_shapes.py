"""Made here: small pictures of a circle, a square, a triangle or a cross, anywhere and in any colour, on noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from regard.data.format._base import Example, Format
from regard.errors import UserError

__all__ = ["MadeShapes"]

MOST_BYTES = 4_000_000_000

Across = np.ndarray
Inside = Callable[[Across, Across], np.ndarray]
"""Where a shape is, at (x, y) from its middle in units of its size, y downwards: each fills most of -1 to 1."""

SHAPES: dict[str, Inside] = {
    "circle": lambda x, y: x**2 + y**2 <= 1,
    "square": lambda x, y: np.maximum(abs(x), abs(y)) <= 0.9,
    "triangle": lambda x, y: (y <= 0.9) & (y >= 2 * abs(x) - 1),
    "cross": lambda x, y: (np.minimum(abs(x), abs(y)) <= 0.35) & (np.maximum(abs(x), abs(y)) <= 1),
}
COLOURS = {
    "red": (230, 40, 40),
    "green": (40, 190, 60),
    "blue": (50, 80, 240),
    "yellow": (240, 220, 50),
    "white": (245, 245, 245),
}
PLACES = {
    "on the left": (-1, 0),
    "on the right": (1, 0),
    "at the top": (0, -1),
    "at the bottom": (0, 1),
    "in the middle": (0, 0),
}


class MadeShapes(Format):
    """A picture and the name of its shape, or sentences such as "a red circle on the left".

    Each part has `count` pictures, drawn by a seed of its own. Of sentences there are two ways to say it: to train on,
    one of them; else both.
    """

    def __init__(
        self, count: int = 10000, seed: int = 1, size: int = 16, colour: bool = False, captions: bool = False
    ) -> None:
        if not 12 <= size <= 512:
            raise UserError(f"data.format.size: wants 12 to 512 pixels, not {size}")
        if not 1 <= count <= MOST_BYTES // size**2 // 3:
            raise UserError(f"data.format.count: {count} pictures are none, or more than memory holds; use fewer")
        if seed < 0:
            raise UserError(f"data.format.seed: wants 0 or more, not {seed}")
        self.count, self.seed, self.size, self.colour, self.captions = count, seed, size, colour, captions

    def read(self, files: Sequence[Path], part: str) -> list[Example]:
        random = np.random.default_rng([self.seed, *part.encode()])
        return [self._example(random, part == "train") for _ in range(self.count)]

    def _example(self, random: np.random.Generator, training: bool) -> Example:
        shape, colour, place = (list(names)[random.integers(len(names))] for names in (SHAPES, COLOURS, PLACES))
        pixels = self._draw(random, SHAPES[shape], COLOURS[colour], PLACES[place])
        if not self.captions:
            return Example(pixels, shape)
        words = f"a {colour} {shape} {place}" if self.colour else f"a {shape} {place}"
        ways = [words, f"there is {words}"]
        return Example(pixels, ways[random.integers(2)] if training else ways)

    def _draw(
        self, random: np.random.Generator, inside: Inside, colour: Sequence[int], place: Sequence[int]
    ) -> np.ndarray:
        size = self.size
        radius = size * random.uniform(0.16, 0.26)
        # Off the middle by about a quarter of the picture, and never out of it.
        middle = size * (0.5 + 0.25 * np.array(place) + random.uniform(-0.06, 0.06, 2)) - 0.5
        x, y = middle.clip(radius - 0.5, size - 0.5 - radius)
        across = np.arange(size)
        where = inside((across[None, :] - x) / radius, (across[:, None] - y) / radius)
        light = np.array(colour if self.colour else [random.integers(160, 256)])
        pixels = random.integers(0, 110, (size, size, len(light)))
        pixels[where] = light + random.integers(-20, 21, pixels[where].shape)
        return pixels.clip(0, 255).astype(np.uint8)
