"""Decodes picture files. Headers are checked against limits before anything is decoded."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import UInt8

from regard.data.bounded import megabytes, read_bytes
from regard.errors import UserError

if TYPE_CHECKING:
    from PIL.Image import Image as Opened

Pixels = UInt8[np.ndarray, "H W C"]
"""Grey (one channel) or red, green and blue."""

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP")
ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp")
MOST_BYTES = 20_000_000
MOST_PIXELS = 25_000_000
MOST_WEBP_PIXELS = 12_000_000
"""A kilobyte can hold this many pixels of one colour, and the WebP decoder keeps four copies of them."""
MOST_EXIF = 1 << 18
"""In bytes; a camera writes a fraction of it. Decoders turn its numbers into objects twenty times as large."""

_GREY = ("1", "L", "LA", "La", "I", "F")
_BAND = 1 << 20  # pixels
_ORIENTATION = 0x0112  # EXIF's tag: how the camera was held
_EXIF_SEGMENT = re.compile(rb"\xff\xe1(..)Exif\0\0", re.DOTALL)


def read_picture(path: Path, shortest: int = 0, note: Callable[[str], None] = lambda text: None) -> Pixels:
    """The pixels of a file, rotated upright."""
    try:
        data = read_bytes(path, MOST_BYTES, MOST_BYTES)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error}); check the file") from None
    return decode_picture(data, str(path), shortest, note)


def decode_picture(
    data: bytes,
    where: str,
    shortest: int = 0,
    note: Callable[[str], None] = lambda text: None,
    still: bool = False,
) -> Pixels:
    """The pixels in the bytes of a file; with `shortest`, a larger picture is shrunk to that short side.

    Of an animation the first frame is used; with `still`, animations are refused.
    """
    from PIL import Image, UnidentifiedImageError

    if len(data) > MOST_BYTES:
        raise UserError(f"{where}: has {megabytes(len(data))}; {megabytes(MOST_BYTES)} are the most")

    def many(most: int) -> UserError:
        return UserError(f"{where}: has more than {most // 1_000_000} million pixels; make it smaller")

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # odd but readable files are fine
            if _exif_of_jpeg(data) > MOST_EXIF:
                raise ValueError("too much EXIF data")
            with Image.open(io.BytesIO(data), formats=FORMATS) as opened:  # reads the header only
                most = MOST_WEBP_PIXELS if opened.format == "WEBP" else MOST_PIXELS
                if opened.width * opened.height > most:
                    raise many(most)
                # MPO is a photograph with a second one for depth, not an animation; some formats lack `is_animated`.
                if getattr(opened, "is_animated", False) and opened.format != "MPO":
                    if still:
                        raise UserError(f"{where}: is an animation; give a still picture")
                    note(f"{where}: is an animation; only its first frame is used")
                return pixels_of(opened, shortest)
    except UserError:
        raise
    except Image.DecompressionBombError:
        raise many(MOST_PIXELS) from None
    except UnidentifiedImageError:
        raise UserError(f"{where}: is no picture that can be read; use PNG, JPEG, GIF, BMP or WebP") from None
    except Exception:  # decoders raise anything on broken files
        raise UserError(f"{where}: the picture is damaged or cut off; save it again") from None


def pixels_of_image(image: Opened) -> Pixels:
    """The pixels of an open PIL image, of its current frame if it has several."""
    if image.width * image.height > MOST_PIXELS:
        raise UserError(f"the picture has more than {MOST_PIXELS // 1_000_000} million pixels; make it smaller")
    try:
        return pixels_of(image, 0)
    except Exception:  # a damaged file fails only now, when it is decoded
        raise UserError("the picture is damaged, cut off or closed; open it again") from None


def pixels_of(opened: Opened, shortest: int) -> Pixels:
    """Decodes an open image, its current frame if it has several."""
    from PIL import Image

    size = opened.size
    side = min(opened.size)
    if side < 1:
        raise ValueError("no pixels")
    if 0 < shortest < side:
        size = (max(1, opened.width * shortest // side), max(1, opened.height * shortest // side))
        opened.draft(None, size)  # a JPEG is then decoded at a fraction of its size
    opened.load()
    turn = _turn(opened)
    grey = opened.mode in _GREY or opened.mode.startswith("I;")
    if opened.size != size:
        whole = Image.new("L" if grey else "RGB", opened.size)
        for top, band in _flat_bands(opened, grey):
            whole.paste(band, (0, top))
        pixels = _array(whole.resize(size, Image.Resampling.BICUBIC, reducing_gap=3.0))
    else:
        pixels = np.empty((opened.height, opened.width, 1 if grey else 3), np.uint8)
        for top, band in _flat_bands(opened, grey):
            pixels[top : top + band.height] = _array(band)
    return np.ascontiguousarray(turn(pixels))


def _flat_bands(opened: Opened, grey: bool) -> Iterator[tuple[int, Opened]]:
    """The picture in grey or colour on a white background, a few rows at a time, since every conversion copies."""
    from PIL import Image

    for top in range(0, opened.height, rows := max(1, _BAND // opened.width)):
        band: Opened = opened.crop((0, top, opened.width, min(top + rows, opened.height)))
        if band.mode.startswith("I"):  # 16-bit grey, which Pillow would clip instead of scaling
            deep = np.asarray(band).astype(np.int64) >> 8
            band = Image.fromarray(deep.clip(0, 255).astype(np.uint8))
        elif band.has_transparency_data:
            white = Image.new("RGBA", band.size, "white")
            white.alpha_composite(band.convert("RGBA"))
            band = white
        yield top, band.convert("L" if grey else "RGB")


def _array(image: Opened) -> Pixels:
    pixels = np.asarray(image)
    return pixels if pixels.ndim == 3 else pixels[..., None]


def _turn(opened: Opened) -> Callable[[Pixels], Pixels]:
    """The rotation that EXIF demands; none if its data are broken."""
    if len(opened.info.get("exif") or opened.info.get("Raw profile type exif") or "") > MOST_EXIF:
        raise ValueError("too much EXIF data")
    try:
        orientation = opened.getexif().get(_ORIENTATION)
    except Exception:
        orientation = None
    turns: dict[object, Callable[[Pixels], Pixels]] = {
        2: lambda pixels: pixels[:, ::-1],
        3: lambda pixels: pixels[::-1, ::-1],
        4: lambda pixels: pixels[::-1],
        5: lambda pixels: pixels.swapaxes(0, 1),
        6: lambda pixels: np.rot90(pixels, -1),
        7: lambda pixels: pixels[::-1, ::-1].swapaxes(0, 1),
        8: lambda pixels: np.rot90(pixels),
    }
    return turns.get(orientation, lambda pixels: pixels)


def _exif_of_jpeg(data: bytes) -> int:
    """Bytes of EXIF data in all segments, which Pillow joins when it opens the file."""
    return sum(int.from_bytes(found[1], "big") for found in _EXIF_SEGMENT.finditer(data))
