"""Images: cropped to the central square, resized, each channel normalised over the training set."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float32, UInt8

from regard.data.input._accepted import CONTENT, FILES, as_array, is_array, read_named, refused
from regard.data.input._base import Input
from regard.data.picture import Pixels, decode_picture, pixels_of_image, read_picture
from regard.errors import UserError, suggestion

__all__ = ["Image"]

FILE = "input.json"
LARGEST = 1024
_TOGETHER = 1024  # images per histogram


class Image(Input):
    """Pixels (H, W, C) -> (pixels / 255 - mean) / spread, (C, size, size)."""

    kind: ClassVar[str] = "image"
    varying: ClassVar[bool] = False
    takes: ClassVar[str] = (
        "a picture: the path or the bytes of a file, a PIL image, or an array of uint8 (height, width, 1 or 3)"
    )

    def __init__(self, size: int, mean: Sequence[float], spread: Sequence[float]) -> None:
        self.size, self.mean, self.spread = size, tuple(mean), tuple(spread)
        self.channels = len(self.mean)
        shades = np.arange(256) / 255
        # A lookup table of the 256 values of a byte.
        self._values = np.stack([(shades - m) / s for m, s in zip(self.mean, self.spread)]).astype(np.float32)

    @classmethod
    def sample(cls) -> list[Pixels]:
        return list(np.random.default_rng(0).integers(0, 256, (3, 8, 8, 3), dtype=np.uint8))

    @classmethod
    def fit(cls, raws: Sequence[Any], *, seed: int, size: int = 0, channels: int = 0, **unknown: Any) -> Image:
        """`size` and `channels` of 0 mean those of the training images; 1 channel is grey, 3 are colours."""
        for name in unknown:
            raise UserError(f"input: no key '{name}'{suggestion(name, ['size', 'channels'])}")
        if not isinstance(size, int) or not 0 <= size <= LARGEST:
            raise UserError(f"input.size: wants pixels, 1 to {LARGEST}, or 0 for those of the images; not {size!r}")
        if channels not in (0, 1, 3):
            raise UserError(f"input.channels: wants 1 (grey), 3 (colours) or 0 (as the images are); not {channels!r}")
        if not len(raws):
            raise UserError("data.train: there are no images to learn from")
        shapes = {checked(raw).shape for raw in raws}
        sides = sorted({min(shape[:2]) for shape in shapes})
        if not size and (len(sides) > 1 or sides[0] > LARGEST):
            found = f"{sides[0]} to {sides[-1]}" if len(sides) > 1 else f"{sides[0]}"
            raise UserError(f"input.size: the images measure {found} pixels; state one size, such as size = 64")
        size = size or sides[0]
        channels = channels or max(shape[2] for shape in shapes)
        counts = np.zeros((channels, 256), np.int64)
        shaped = (_shaped(raw, size, channels) for raw in raws)
        while some := list(islice(shaped, _TOGETHER)):
            together = np.stack(some)
            for channel, count in enumerate(counts):
                count += np.bincount(together[..., channel].ravel(), minlength=256)
        return cls(size, *_mean_and_spread(counts))

    @classmethod
    def from_files(cls, files: Mapping[str, bytes]) -> Image:
        try:
            saved = json.loads(files[FILE])
            size, mean, spread = saved["size"], saved["mean"], saved["spread"]
            numbers = [*mean, *spread]
            good = (
                type(size) is int
                and 1 <= size <= LARGEST
                and len(mean) == len(spread)
                and len(mean) in (1, 3)
                and all(type(number) is float and math.isfinite(number) for number in numbers)
                and min(spread) > 1e-6
            )
        except (KeyError, TypeError, ValueError, RecursionError):
            good = False
        if not good:
            raise UserError(f"{FILE}: does not describe images; the model folder is damaged")
        return cls(size, mean, spread)

    def files(self) -> dict[str, bytes]:
        saved = {"kind": self.kind, "size": self.size, "mean": self.mean, "spread": self.spread}
        return {FILE: json.dumps(saved, indent=0).encode()}

    def sizes(self) -> dict[str, int]:
        return {"channels": self.channels, "size": self.size}

    def read(self, argument: str, note: Callable[[str], None] = lambda text: None) -> Pixels:
        return _noted(read_picture(Path(argument), note=note), argument, note)

    def decode(self, content: bytes, name: str, note: Callable[[str], None] = lambda text: None) -> Pixels:
        """The pixels in the bytes of an uploaded file; animations are refused."""
        return _noted(decode_picture(content, name, note=note, still=True), name, note)

    def is_one(self, given: Any) -> bool:
        return isinstance(given, (*FILES, *CONTENT)) or is_array(given) or _is_pillow(given)

    def accept(self, given: Any) -> UInt8[np.ndarray, "S S C"]:
        if isinstance(given, CONTENT):
            return self.shaped(self.decode(bytes(given), "the picture"))
        if isinstance(given, FILES):
            return self.shaped(read_named(self.read, given, self.takes))
        if _is_pillow(given):
            return self.shaped(pixels_of_image(given))
        if not is_array(given):
            raise refused(given, self.takes)
        pixels = as_array(given)
        if pixels.ndim == 3 and pixels.shape[2] == 4 and pixels.dtype == np.uint8:
            from PIL import Image as Pillow

            return self.shaped(pixels_of_image(Pillow.fromarray(pixels)))
        return self.shaped(pixels[..., None] if pixels.ndim == 2 else pixels)

    def shaped(self, raw: Any) -> UInt8[np.ndarray, "S S C"]:
        """The central square at the model's size and channels, before normalisation."""
        return _shaped(checked(raw), self.size, self.channels)

    def encode(self, raw: Any) -> Float32[np.ndarray, "C S S"]:
        pixels = self.shaped(raw)
        encoded = np.empty((self.channels, self.size, self.size), np.float32)
        for channel, values in enumerate(self._values):
            encoded[channel] = values[pixels[..., channel]]
        return encoded


def _is_pillow(given: Any) -> bool:
    from PIL import Image as Pillow

    return isinstance(given, Pillow.Image)


def _noted(pixels: Pixels, name: str, note: Callable[[str], None]) -> Pixels:
    height, width, _ = pixels.shape
    if height != width:
        note(f"{name}: is {width} x {height} pixels; only the square in the middle is used")
    return pixels


def checked(raw: Any) -> np.ndarray:
    """The picture itself, or a UserError where this is none."""
    fits = isinstance(raw, np.ndarray) and raw.dtype == np.uint8 and raw.ndim == 3 and raw.shape[2] in (1, 3)
    if not fits or raw.size == 0:
        found = f"{raw.dtype} {raw.shape}" if isinstance(raw, np.ndarray) else type(raw).__name__
        raise UserError(f"an image must be an array of uint8 (height, width, 1 or 3), not {found}")
    return raw


def _shaped(raw: Pixels, size: int, channels: int) -> UInt8[np.ndarray, "S S K"]:
    """The central square, resized, grey or in colour."""
    height, width, given = raw.shape
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    square = raw[top : top + side, left : left + side]
    if side != size or given > channels:
        square = _with_pillow(square, size, "L" if channels == 1 else "RGB")
    return square if square.shape[2] == channels else square.repeat(channels, axis=2)


def _with_pillow(square: Pixels, size: int, mode: str) -> UInt8[np.ndarray, "S S K"]:
    from PIL import Image as Pillow

    image = Pillow.fromarray(square if square.shape[2] == 3 else square[..., 0])
    if image.size != (size, size):
        image = image.resize((size, size), Pillow.Resampling.BICUBIC)
    pixels = np.asarray(image.convert(mode) if len(mode) < len(image.mode) else image)
    return pixels if pixels.ndim == 3 else pixels[..., None]


def _mean_and_spread(counts: np.ndarray) -> tuple[list[float], list[float]]:
    """Mean and spread per channel from its histogram: sums of integers, exact in any order."""
    shades = np.arange(256) / 255
    means, spreads = [], []
    for count in counts:
        mean = float(np.average(shades, weights=count))
        means.append(mean)
        # A constant channel has no spread; one shade stands in for it.
        spreads.append(max(float(np.average((shades - mean) ** 2, weights=count)) ** 0.5, 1 / 255))
    return means, spreads
