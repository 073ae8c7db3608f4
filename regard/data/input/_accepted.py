"""The types a caller in Python may pass as an input, and the reading of files that all kinds of input share.

DataFrames are recognised by their attributes: neither pandas nor polars is imported.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import numpy as np

from regard.errors import UserError

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

    from regard.data.input.sound import Sound

T = TypeVar("T")


class Frame(Protocol):
    """A table with named columns: a DataFrame of pandas or polars."""

    @property
    def columns(self) -> Any: ...

    def __getitem__(self, name: Any, /) -> Any: ...


FileLike: TypeAlias = "str | os.PathLike[str]"
"""The path of a file."""
PictureLike: TypeAlias = "FileLike | bytes | np.ndarray | PillowImage"
"""PNG, JPEG, GIF, BMP or WebP; or pixels as uint8: (height, width) or (height, width, 1, 3 or 4)."""
SoundLike: TypeAlias = "FileLike | bytes | Sound | tuple[np.ndarray, int]"
"""WAV, FLAC or OGG; or (samples, rate): floats between -1 and 1 or integers, of shape (N,) or (N, channels)."""
ClipLike: TypeAlias = "FileLike | bytes | np.ndarray"
"""An animated GIF; or frames as uint8 (frames, height, width, 1 or 3)."""
SeriesLike: TypeAlias = "FileLike | np.ndarray | Frame"
"""A CSV file; or numbers (steps, columns); of a file or a DataFrame the model's columns are taken by name."""
InputLike: TypeAlias = "PictureLike | SoundLike | SeriesLike"
"""Any of these, or a text."""

FILES = (str, os.PathLike)
CONTENT = (bytes, bytearray, memoryview)


def is_frame(given: Any) -> bool:
    return hasattr(given, "columns") and hasattr(given, "__getitem__")


def is_array(given: Any) -> bool:
    """A NumPy array, a PyTorch tensor, a pandas Series: whatever NumPy can take as an array."""
    return hasattr(given, "__array__") and not is_frame(given)


def as_array(given: Any) -> np.ndarray:
    try:
        return np.asarray(given)
    except (TypeError, ValueError, RuntimeError) as error:  # a tensor on a GPU, for one
        raise UserError(f"this cannot be made a NumPy array ({' '.join(str(error).split())})") from None


def read_named(read: Callable[[str], T], file: FileLike, takes: str) -> T:
    """Reads a file by its path; one that is not there gets a line that says what the model takes."""
    try:
        name = os.fspath(file)
        there = Path(name).exists()
    except (OSError, ValueError, TypeError):  # longer than any name, or made of what no name has
        name, there = str(file), False
    if not there:
        shown = name if len(name) <= 100 else f"{name[:97]}..."
        raise UserError(f"no file {shown!r}; this model takes {takes}")
    try:
        return read(name)
    except OSError as error:
        raise UserError(f"{name}: cannot be read ({error.strerror or error}); check the file") from None


def refused(given: Any, takes: str) -> UserError:
    return UserError(f"this model takes {takes}; not {_described(given)}")


def _described(given: Any) -> str:
    if isinstance(given, np.ndarray):
        return f"an array of {given.dtype} {given.shape}"
    return "None" if given is None else f"an object of type {type(given).__name__}"
