"""Clips: sequences of images of any length. Every frame is encoded as an image."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float32, UInt8

from regard.data.bounded import read_bytes
from regard.data.input._accepted import CONTENT, FILES, as_array, is_array, read_named, refused
from regard.data.input._base import Input
from regard.data.input.image import Image
from regard.data.picture import pixels_of
from regard.errors import UserError

__all__ = ["Clip"]

Frames = UInt8[np.ndarray, "T H W C"]

BYTES = 20_000_000
FRAMES = 500
PIXELS = 4_000_000
"""Most pixels of one frame; ALL_PIXELS is the limit of all frames."""
ALL_PIXELS = 200_000_000
KEPT_PIXELS = 32_000_000
"""Most pixels of all frames at the size kept in memory."""
_BLOCK = re.compile(b"[,!;]")


class Clip(Input):
    """Frames (T, H, W, C) -> (T, C, size, size), normalised by the mean and spread of the training clips."""

    kind: ClassVar[str] = "clip"
    varying: ClassVar[bool] = True
    takes: ClassVar[str] = (
        "a clip: the path or the bytes of an animated GIF, or an array of uint8 (frames, height, width, 1 or 3)"
    )

    def __init__(self, image: Image) -> None:
        self.image = image

    @classmethod
    def sample(cls) -> list[Frames]:
        frames = np.random.default_rng(0).integers(0, 256, (6, 8, 8, 3), dtype=np.uint8)
        return [frames[:2], frames[2:3], frames[3:]]

    @classmethod
    def fit(cls, raws: Sequence[Any], *, seed: int, **options: Any) -> Clip:
        """Takes the keywords of an image, `size` and `channels`; 0 means those of the training clips."""
        for number, raw in enumerate(raws, 1):
            if not isinstance(raw, np.ndarray) or raw.ndim != 4 or not len(raw):
                raise UserError(f"data.train: clip {number} is no array of frames (T, height, width, 1 or 3)")
        return cls(Image.fit(list(chain.from_iterable(raws)), seed=seed, **options))

    @classmethod
    def from_files(cls, files: Mapping[str, bytes]) -> Clip:
        return cls(Image.from_files(files))

    def files(self) -> dict[str, bytes]:
        return self.image.files()

    def sizes(self) -> dict[str, int]:
        return self.image.sizes()

    def read(self, argument: str, note: Callable[[str], None] = lambda text: None) -> Frames:
        """An animated GIF. Large frames are shrunk one by one, so that they are never all in memory."""
        return _noted(*read_gif(Path(argument), self.image.size), argument, note)

    def decode(self, content: bytes, name: str, note: Callable[[str], None] = lambda text: None) -> Frames:
        """The frames in the bytes of an uploaded file."""
        return _noted(*decode_gif(content, name, self.image.size), name, note)

    def is_one(self, given: Any) -> bool:
        return isinstance(given, (*FILES, *CONTENT)) or is_array(given)

    def accept(self, given: Any) -> Frames:
        if isinstance(given, CONTENT):
            frames = self.decode(bytes(given), "the clip")
        elif isinstance(given, FILES):
            frames = read_named(self.read, given, self.takes)
        elif is_array(given):
            frames = as_array(given)
        else:
            raise refused(given, self.takes)
        if frames.ndim != 4 or not len(frames):
            raise refused(frames, self.takes)
        return np.stack([self.image.shaped(frame) for frame in frames])

    def encode(self, raw: Frames) -> Float32[np.ndarray, "T K S S"]:
        return np.stack([self.image.encode(frame) for frame in raw])


def _noted(frames: Frames, size: tuple[int, int], name: str, note: Callable[[str], None]) -> Frames:
    if size[0] != size[1]:
        note(f"{name}: is {size[0]} x {size[1]} pixels; only the square in the middle is used")
    return frames


def read_gif(path: Path, shortest: int = 0) -> tuple[Frames, tuple[int, int]]:
    """The frames of a GIF, and its width and height; with `shortest`, a larger one is shrunk to that short side."""
    return decode_gif(read_bytes(path, BYTES, BYTES), str(path), shortest)


def decode_gif(content: bytes, where: str, shortest: int = 0) -> tuple[Frames, tuple[int, int]]:
    """Like `read_gif`, from the bytes of a file."""
    from PIL import Image as Pillow

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Pillow.open(io.BytesIO(content), formats=("GIF",)) as opened:  # reads the header only
                size, count = opened.size, _count_frames(content)
                _check_pixels(size, count, shortest, where)
                frames: np.ndarray | None = None
                grey = True
                for number in range(count):
                    opened.seek(number)
                    if opened.size != size:
                        raise ValueError("a frame is larger than the clip")
                    frame = pixels_of(opened, shortest)
                    if frames is None:
                        frames = np.empty((count, *frame.shape[:2], 3), np.uint8)
                    frames[number], grey = frame, grey and frame.shape[2] == 1
        if frames is None:
            raise ValueError("no frames")
        return (np.ascontiguousarray(frames[..., :1]) if grey else frames), size
    except UserError:
        raise
    except Pillow.UnidentifiedImageError:
        raise UserError(f"{where}: is no GIF that can be read; save the clip as an animated GIF") from None
    except Exception:  # decoders raise anything on broken files
        raise UserError(f"{where}: the GIF is damaged or cut off; save it again") from None


def _count_frames(content: bytes) -> int:
    """Counts the frames of a GIF without decoding them, with Pillow's result in a tenth of its time."""

    def colours(flags: int) -> int:
        return 3 << (flags & 7) + 1 if flags & 0x80 else 0

    count, at = 0, 13 + colours(content[10])
    while at < len(content) and content[at] != ord(";"):
        if content[at] == ord(","):
            count, at = count + 1, at + 11 + colours(content[at + 9])
        elif content[at] == ord("!"):
            at += 2
        else:  # no block begins here: skip to the next one, as Pillow does
            found = _BLOCK.search(content, at)
            at = found.start() if found else len(content)
            continue
        while at < len(content) and content[at]:  # blocks of data, each preceded by its length, up to one of length 0
            at += content[at] + 1
        at += 1
    return count


def _check_pixels(size: tuple[int, int], frames: int, shortest: int, where: str) -> None:
    pixels, kept = size[0] * size[1], size[0] * size[1]
    if 0 < shortest < min(size):
        kept = shortest * shortest * max(size) // min(size)
    if frames > FRAMES:
        raise UserError(f"{where}: has {frames:,} frames; {FRAMES} are the most, so cut it")
    if pixels > PIXELS:
        raise UserError(
            f"{where}: has {pixels / 1e6:,.1f} million pixels a frame; {PIXELS // 10**6} million are the most"
        )
    for all_pixels, most in ((pixels * frames, ALL_PIXELS), (kept * frames, KEPT_PIXELS)):
        if all_pixels > most:
            every = all_pixels // 10**6
            raise UserError(
                f"{where}: has {every:,} million pixels in all frames; {most // 10**6} million are the most, so cut it "
                "or make it smaller"
            )
