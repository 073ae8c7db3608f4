"""Images: resized, cut to a square, each channel normalised."""

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
from regard.data.input._resizing import LARGEST, Other, Resizing
from regard.data.picture import Pixels, decode_picture, pixels_of_image, read_picture
from regard.errors import UserError

__all__ = ["Image"]

FILE = "input.json"
_TOGETHER = 1024  # images per histogram


class Image(Input):
    """Pixels (H, W, C) -> (pixels / 255 - mean) / spread, (C, size, size)."""

    kind: ClassVar[str] = "image"
    varying: ClassVar[bool] = False
    takes: ClassVar[str] = (
        "a picture: the path or the bytes of a file, a PIL image, or an array of uint8 (height, width, 1 or 3)"
    )

    def __init__(
        self, size: int, mean: Sequence[float], spread: Sequence[float], resizing: Resizing | None = None
    ) -> None:
        self.size, self.mean, self.spread = size, tuple(mean), tuple(spread)
        self.resizing = resizing or Resizing(size)
        self.channels = len(self.mean)
        shades = np.arange(256) / 255
        # A lookup table of the 256 values of a byte.
        self._values = np.stack([(shades - m) / s for m, s in zip(self.mean, self.spread)]).astype(np.float32)

    @classmethod
    def sample(cls) -> list[Pixels]:
        return list(np.random.default_rng(0).integers(0, 256, (3, 8, 8, 3), dtype=np.uint8))

    @classmethod
    def fit(
        cls,
        raws: Sequence[Any],
        *,
        seed: int,
        size: int = 0,
        channels: int = 0,
        resize: str = "square",
        resize_to: int = 0,
        filter: str = "bicubic",
        mean: Sequence[float] = (),
        spread: Sequence[float] = (),
    ) -> Image:
        """`size` and `channels` of 0 mean those of the training images; 1 channel is grey, 3 are colours. `mean` and
        `spread` are learnt from them unless they are given."""
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
        resizing = Resizing(size, resize, resize_to, filter)
        if mean or spread:
            return cls(size, *_given(mean, spread, channels), resizing)
        channels = channels or max(shape[2] for shape in shapes)
        counts = np.zeros((channels, 256), np.int64)
        shaped = (resizing(raw, channels) for raw in raws)
        while some := list(islice(shaped, _TOGETHER)):
            together = np.stack(some)
            for channel, count in enumerate(counts):
                count += np.bincount(together[..., channel].ravel(), minlength=256)
        return cls(size, *_mean_and_spread(counts), resizing)

    @classmethod
    def from_files(cls, files: Mapping[str, bytes]) -> Image:
        try:
            saved = json.loads(files[FILE])
            size, mean, spread = saved["size"], saved["mean"], saved["spread"]
            numbers = [*mean, *spread]
            stated = saved.get("resize", "square"), saved.get("resize_to", 0), saved.get("filter", "bicubic")
            good = (
                type(size) is int
                and 1 <= size <= LARGEST
                and len(mean) == len(spread)
                and len(mean) in (1, 3)
                and all(type(number) is float and math.isfinite(number) for number in numbers)
                and min(spread) > 1e-6
                and [type(value) for value in stated] == [str, int, str]
            )
            resizing = Resizing(size, *stated) if good else None
        except (KeyError, TypeError, ValueError, RecursionError, UserError):
            good = False
        if not good:
            raise UserError(f"{FILE}: does not describe images; the model folder is damaged")
        return cls(size, mean, spread, resizing)

    def files(self) -> dict[str, bytes]:
        saved: dict[str, Any] = {"kind": self.kind, "size": self.size, "mean": self.mean, "spread": self.spread}
        saved |= self.resizing.saved()
        return {FILE: json.dumps(saved, indent=0).encode()}

    def sizes(self) -> dict[str, int]:
        return {"channels": self.channels, "size": self.size}

    def read(self, argument: str, note: Callable[[str], None] = lambda text: None) -> Pixels:
        return self._noted(read_picture(Path(argument), note=note), argument, note)

    def decode(self, content: bytes, name: str, note: Callable[[str], None] = lambda text: None) -> Pixels:
        """The pixels in the bytes of an uploaded file; animations are refused."""
        return self._noted(decode_picture(content, name, note=note, still=True), name, note)

    def is_one(self, given: Any) -> bool:
        return isinstance(given, (*FILES, *CONTENT)) or is_array(given) or _is_pillow(given)

    def accept(self, given: Any) -> UInt8[np.ndarray, "H W C"]:
        if isinstance(given, CONTENT):
            return self._reduced(self.decode(bytes(given), "the picture"))
        if isinstance(given, FILES):
            return self._reduced(read_named(self.read, given, self.takes))
        if _is_pillow(given):
            return self._reduced(pixels_of_image(given))
        if not is_array(given):
            raise refused(given, self.takes)
        pixels = as_array(given)
        if pixels.ndim == 3 and pixels.shape[2] == 4 and pixels.dtype == np.uint8:
            from PIL import Image as Pillow

            return self._reduced(pixels_of_image(Pillow.fromarray(pixels)))
        return self._reduced(pixels[..., None] if pixels.ndim == 2 else pixels)

    def _reduced(self, raw: Any) -> Other:
        """Resized, but not yet cut to the size of the model: doing that twice would not be the same."""
        return self.resizing.resized(checked(raw), self.channels)

    def _noted(self, pixels: Pixels, name: str, note: Callable[[str], None]) -> Pixels:
        if said := self.resizing.note(*pixels.shape[:2]):
            note(f"{name}: {said}")
        return pixels

    def shaped(self, raw: Any) -> UInt8[np.ndarray, "S S C"]:
        """The square that the model reads, at its size and channels, before normalisation."""
        return self.resizing(checked(raw), self.channels)

    def encode(self, raw: Any) -> Float32[np.ndarray, "C S S"]:
        pixels = self.shaped(raw)
        encoded = np.empty((self.channels, self.size, self.size), np.float32)
        for channel, values in enumerate(self._values):
            encoded[channel] = values[pixels[..., channel]]
        return encoded


def _is_pillow(given: Any) -> bool:
    from PIL import Image as Pillow

    return isinstance(given, Pillow.Image)


def checked(raw: Any) -> np.ndarray:
    """The picture itself, or a UserError where this is none."""
    fits = isinstance(raw, np.ndarray) and raw.dtype == np.uint8 and raw.ndim == 3 and raw.shape[2] in (1, 3)
    if not fits or raw.size == 0:
        found = f"{raw.dtype} {raw.shape}" if isinstance(raw, np.ndarray) else type(raw).__name__
        raise UserError(f"an image must be an array of uint8 (height, width, 1 or 3), not {found}")
    return raw


def _given(mean: Sequence[float], spread: Sequence[float], channels: int) -> tuple[list[float], list[float]]:
    """Mean and spread as a recipe states them."""
    if len(mean) != len(spread) or len(mean) not in ((channels,) if channels else (1, 3)):
        count = channels or "1 (grey) or 3 (colours)"
        raise UserError(f"input.mean, input.spread: want {count} numbers each; not {len(mean)} and {len(spread)}")
    if min(spread) <= 1e-6:
        raise UserError(f"input.spread: wants numbers above 0.000001, not {min(spread)}")
    return list(map(float, mean)), list(map(float, spread))


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
