"""How a picture becomes a square of the model's size: resized, then its middle cut out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import UInt8

from regard.data.picture import MOST_PIXELS, Pixels
from regard.errors import UserError

WAYS = ("square", "stretch", "short_side", "none")
FILTERS = ("nearest", "box", "bilinear", "hamming", "bicubic", "lanczos")
LARGEST = 1024
Other = UInt8[np.ndarray, "h w c"]
"""Pixels of another size than those given."""


@dataclass(frozen=True)
class Resizing:
    """`way`: the central square is resized (square), both sides without regard to their proportions (stretch), the
    picture in its proportions by its short side (short_side), or nothing (none). Then the middle is cut out; where a
    picture is smaller than that, the rest is black."""

    size: int
    """The side of the result."""
    way: str = "square"
    to: int = 0
    """Pixels that are resized to; 0: `size`."""
    filter: str = "bicubic"

    def __post_init__(self) -> None:
        if self.way not in WAYS:
            raise UserError(f"input.resize: no '{self.way}'; use {', '.join(WAYS)}")
        if self.filter not in FILTERS:
            raise UserError(f"input.filter: no '{self.filter}'; use {', '.join(FILTERS)}")
        if type(self.to) is not int or not 0 <= self.to <= LARGEST:
            raise UserError(f"input.resize_to: wants pixels, 1 to {LARGEST}, or 0 for input.size; not {self.to!r}")

    def shape(self, height: int, width: int) -> tuple[int, int]:
        """Height and width after resizing."""
        side = self.to or self.size
        if self.way == "none":
            return height, width
        if self.way != "short_side":
            return side, side
        longer = side * max(height, width) // min(height, width)
        if side * longer > MOST_PIXELS:
            raise UserError(f"a picture of {width} x {height} pixels is too narrow for this model; cut it")
        return (longer, side) if width <= height else (side, longer)

    def resized(self, raw: Pixels, channels: int) -> Other:
        """Resized and grey or in colour. Done twice, it is the same as once."""
        if self.way == "square":
            raw = _middle(raw, min(raw.shape[:2]))
        shape = self.shape(*raw.shape[:2])
        if raw.shape[:2] != shape or raw.shape[2] > channels:
            raw = _with_pillow(raw, shape, "L" if channels == 1 else "RGB", self.filter)
        if self.way == "none":
            raw = _middle(raw, self.size)
        return raw if raw.shape[2] == channels else raw.repeat(channels, axis=2)

    def __call__(self, raw: Pixels, channels: int) -> UInt8[np.ndarray, "S S K"]:
        middle = _middle(self.resized(raw, channels), self.size)
        short = [self.size - side for side in middle.shape[:2]]
        if any(short):
            middle = np.pad(middle, [*(((gap + 1) // 2, gap // 2) for gap in short), (0, 0)])
        return middle

    def saved(self) -> dict[str, Any]:
        """What differs from the defaults, which older models do not state."""
        stated = {"resize": self.way, "resize_to": self.to, "filter": self.filter}
        return {key: value for key, value in stated.items() if value != _DEFAULTS[key]}

    def note(self, height: int, width: int) -> str:
        """What is said of a picture that is not square; empty if there is nothing to say."""
        if height == width:
            return ""
        done = "it is resized to a square" if self.way == "stretch" else "only the square in the middle is used"
        return f"is {width} x {height} pixels; {done}"


_DEFAULTS = {"resize": "square", "resize_to": 0, "filter": "bicubic"}


def _middle(pixels: Pixels, side: int) -> Other:
    """The middle of at most this height and width."""
    top, left = (max(0, (length - side) // 2) for length in pixels.shape[:2])
    return pixels[top : top + side, left : left + side]


def _with_pillow(pixels: Pixels, shape: tuple[int, int], mode: str, filter: str) -> Other:
    from PIL import Image as Pillow

    image = Pillow.fromarray(pixels if pixels.shape[2] == 3 else pixels[..., 0])
    if image.size != shape[::-1]:
        image = image.resize(shape[::-1], Pillow.Resampling[filter.upper()])
    found = np.asarray(image.convert(mode) if len(mode) < len(image.mode) else image)
    return found if found.ndim == 3 else found[..., None]
