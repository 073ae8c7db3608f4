"""Synthetic: small pictures of circles, squares, triangles and crosses on noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from regard.data.format._base import Example, Format
from regard.errors import UserError

__all__ = ["MadeShapes"]

MOST_BYTES = 4_000_000_000

Across = np.ndarray
Inside = Callable[[Across, Across], np.ndarray]
"""Whether (x, y), relative to the centre in units of the radius, y downwards, is inside the shape."""

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
RELATIONS = {
    "left of": ("right of", (-1, 0)),
    "right of": ("left of", (1, 0)),
    "above": ("below", (0, -1)),
    "below": ("above", (0, 1)),
}
"""The relation of the first shape to the second: the inverse relation, and the direction of the first."""


class MadeShapes(Format):
    """A picture and the name of its shape, or sentences such as "a red circle on the left".

    With `shapes` = 2 every picture has two, and sentences such as "a red circle left of a blue square". Each part has
    `count` pictures and its own random generator. Every picture can be described in two ways: training uses one of
    them at random, validation and test have both as references.
    """

    def __init__(
        self,
        count: int = 10000,
        seed: int = 1,
        size: int = 16,
        colour: bool = False,
        captions: bool = False,
        shapes: int = 1,
    ) -> None:
        if not 12 <= size <= 512:
            raise UserError(f"data.format.size: wants 12 to 512 pixels, not {size}")
        if not 1 <= count <= MOST_BYTES // size**2 // 3:
            raise UserError(f"data.format.count: {count} pictures are none, or more than memory holds; use fewer")
        if seed < 0:
            raise UserError(f"data.format.seed: wants 0 or more, not {seed}")
        if shapes not in (1, 2):
            raise UserError(f"data.format.shapes: wants 1 or 2 in a picture, not {shapes}")
        if shapes == 2 and not captions:
            raise UserError("data.format.shapes: two shapes have no one name; set captions = true, or shapes = 1")
        self.count, self.seed, self.size, self.colour, self.captions = count, seed, size, colour, captions
        self.shapes = shapes

    def read(self, files: Sequence[Path], part: str) -> list[Example]:
        random = np.random.default_rng([self.seed, *part.encode()])
        make = self._example if self.shapes == 1 else self._pair
        return [make(random, part == "train") for _ in range(self.count)]

    def _example(self, random: np.random.Generator, training: bool) -> Example:
        shape, colour, place = (one_of(random, names) for names in (SHAPES, COLOURS, PLACES))
        radius = self.size * random.uniform(0.16, 0.26)
        # About a quarter of the picture off the centre.
        offset = 0.25 * np.array(PLACES[place]) + random.uniform(-0.06, 0.06, 2)
        pixels = self._picture(random, [(SHAPES[shape], COLOURS[colour], radius, offset)])
        if not self.captions:
            return Example(pixels, shape)
        words = f"{self._called(shape, colour)} {place}"
        return self._said(random, pixels, [words, f"there is {words}"], training)

    def _pair(self, random: np.random.Generator, training: bool) -> Example:
        """Two shapes of different form or colour, side by side or one above the other, that do not touch."""
        relation = one_of(random, RELATIONS)
        back, side = RELATIONS[relation]
        while True:
            first, second = [(one_of(random, SHAPES), one_of(random, COLOURS)) for _ in range(2)]
            if first != second if self.colour else first[0] != second[0]:
                break
        # The centres are at least 0.42 of the picture apart on one axis, and at most 0.12 on the other.
        along, across = random.uniform(-0.04, 0.04, (2, 2)), random.uniform(-0.06, 0.06, (2, 2))
        jitter = np.where(np.array(side) != 0, along, across)
        offsets = 0.25 * np.array([side, np.negative(side)]) + jitter
        radii = self.size * random.uniform(0.13, 0.2, 2)
        drawn = [(SHAPES[s], COLOURS[c], r, o) for (s, c), r, o in zip((first, second), radii, offsets)]
        pixels = self._picture(random, drawn)
        one, other = self._called(*first), self._called(*second)
        return self._said(random, pixels, [f"{one} {relation} {other}", f"{other} {back} {one}"], training)

    def _called(self, shape: str, colour: str) -> str:
        return f"a {colour} {shape}" if self.colour else f"a {shape}"

    def _said(self, random: np.random.Generator, pixels: np.ndarray, ways: list[str], training: bool) -> Example:
        return Example(pixels, ways[random.integers(len(ways))] if training else ways)

    def _picture(
        self, random: np.random.Generator, drawn: Sequence[tuple[Inside, Sequence[int], float, np.ndarray]]
    ) -> np.ndarray:
        """Draws shapes, each with a colour, a radius in pixels and an offset from the centre in picture widths."""
        size = self.size
        across = np.arange(size)
        lights = [np.array(colour if self.colour else [random.integers(160, 256)]) for _, colour, _, _ in drawn]
        pixels = random.integers(0, 110, (size, size, len(lights[0])))
        for (inside, _, radius, offset), light in zip(drawn, lights):
            middle = size * (0.5 + offset) - 0.5
            x, y = middle.clip(radius - 0.5, size - 0.5 - radius)  # inside the picture
            where = inside((across[None, :] - x) / radius, (across[:, None] - y) / radius)
            pixels[where] = light + random.integers(-20, 21, pixels[where].shape)
        return pixels.clip(0, 255).astype(np.uint8)


def one_of(random: np.random.Generator, names: Mapping[str, object]) -> str:
    return list(names)[random.integers(len(names))]
