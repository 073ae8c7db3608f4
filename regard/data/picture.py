"""Picture files to pixels. What a header says is checked before anything is decoded; nothing here writes."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import UInt8

from regard.data.bounded import megabytes, read_bytes
from regard.errors import UserError

if TYPE_CHECKING:
    from PIL.Image import Image as Opened
    from PIL.Image import Transpose

Pixels = UInt8[np.ndarray, "H W C"]
"""Grey (one channel) or red, green and blue."""

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP")
ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp")
MOST_BYTES = 20_000_000
MOST_PIXELS = 25_000_000
MOST_EXIF = 1 << 18
"""Bytes: a camera writes a fraction of it. Of numbers in there a decoder makes objects, twenty times as large."""

_GREY = ("1", "L", "LA", "La", "I", "F")
_ORIENTATION = 0x0112  # EXIF's tag: how the camera was held
_EXIF_SEGMENT = re.compile(rb"\xff\xe1(..)Exif\0\0", re.DOTALL)


def read_picture(path: Path, shortest: int = 0, note: Callable[[str], None] = lambda text: None) -> Pixels:
    """The pixels of a file, the way up it is looked at."""
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
    """The pixels in a file's bytes; with `shortest`, a larger picture is shrunk until its short side is that long.

    Of one that moves the first frame is taken, or, if it is to be `still`, nothing.
    """
    from PIL import Image, UnidentifiedImageError

    if len(data) > MOST_BYTES:
        raise UserError(f"{where}: has {megabytes(len(data))}; {megabytes(MOST_BYTES)} are the most")
    many = UserError(f"{where}: has more than {MOST_PIXELS // 1_000_000} million pixels; make it smaller")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is odd but readable is nobody's concern here
            if _exif_of_jpeg(data) > MOST_EXIF:
                raise ValueError("too much EXIF data")
            with Image.open(io.BytesIO(data), formats=FORMATS) as opened:  # reads the header only
                if opened.width * opened.height > MOST_PIXELS:
                    raise many
                # A photograph with a second one behind it, for depth, does not move.
                if getattr(opened, "is_animated", False) and opened.format != "MPO":
                    if still:
                        raise UserError(f"{where}: moves; give a picture that does not")
                    note(f"{where}: moves; only its first frame is looked at")
                return pixels_of(opened, shortest)
    except UserError:
        raise
    except Image.DecompressionBombError:
        raise many from None
    except UnidentifiedImageError:
        raise UserError(f"{where}: is no picture that can be read; use PNG, JPEG, GIF, BMP or WebP") from None
    except Exception:  # a broken file raises whatever its decoder stumbles over
        raise UserError(f"{where}: the picture is damaged or cut off; save it again") from None


def pixels_of_image(image: Opened) -> Pixels:
    """The pixels of a PIL image that a caller has open; of several frames the current one."""
    if image.width * image.height > MOST_PIXELS:
        raise UserError(f"the picture has more than {MOST_PIXELS // 1_000_000} million pixels; make it smaller")
    try:
        return pixels_of(image, 0)
    except Exception:  # opened from a file that is damaged: it is only now decoded
        raise UserError("the picture is damaged, cut off or closed; open it again") from None


def pixels_of(opened: Opened, shortest: int) -> Pixels:
    """Decodes what is open, the current frame where there are several."""
    from PIL import Image

    image, wanted = opened, opened.size
    side = min(opened.size)
    if side < 1:
        raise ValueError("no pixels")
    if 0 < shortest < side:
        wanted = (max(1, opened.width * shortest // side), max(1, opened.height * shortest // side))
        opened.draft(None, wanted)  # a JPEG is then decoded at a fraction of its size
    opened.load()
    turned = _turned(opened)
    if image.mode.startswith("I"):  # sixteen bits of grey, which Pillow would clip and not scale
        deep = np.asarray(image).astype(np.int64) >> 8
        image = Image.fromarray(deep.clip(0, 255).astype(np.uint8))
    mode = "L" if image.mode in _GREY else "RGB"
    if image.has_transparency_data:
        white = Image.new("RGBA", image.size, "white")
        white.alpha_composite(image.convert("RGBA"))
        image = white
    image = image.convert(mode)
    if image.size != wanted:
        image = image.resize(wanted, Image.Resampling.BICUBIC, reducing_gap=3.0)
    if turned is not None:
        image = image.transpose(turned)
    pixels = np.array(image)
    return pixels if pixels.ndim == 3 else pixels[..., None]


def _turned(opened: Opened) -> Transpose | None:
    """How to turn a photograph upright; one whose EXIF data are broken stays as it is."""
    from PIL.Image import Transpose as T

    if len(opened.info.get("exif") or opened.info.get("Raw profile type exif") or "") > MOST_EXIF:
        raise ValueError("too much EXIF data")
    turns: dict[object, Transpose] = {
        2: T.FLIP_LEFT_RIGHT,
        3: T.ROTATE_180,
        4: T.FLIP_TOP_BOTTOM,
        5: T.TRANSPOSE,
        6: T.ROTATE_270,
        7: T.TRANSVERSE,
        8: T.ROTATE_90,
    }
    try:
        return turns.get(opened.getexif().get(_ORIENTATION))
    except Exception:
        return None


def _exif_of_jpeg(data: bytes) -> int:
    """Bytes of EXIF data in all segments that hold such, which are put together when the file is opened."""
    return sum(int.from_bytes(found[1], "big") for found in _EXIF_SEGMENT.finditer(data))
