"""The types that a caller in Python may pass as an input, and reading files by path. Shared by all kinds of input.

DataFrames and arrays are recognised by the protocols below, so that neither pandas nor polars is imported.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from regard.errors import UserError

if TYPE_CHECKING:
    import numpy as np
    from PIL.Image import Image as PillowImage

    from regard.data.input.sound import Sound

T = TypeVar("T")


@runtime_checkable
class Frame(Protocol):
    """A table with named columns: a DataFrame of pandas or polars."""

    @property
    def columns(self) -> Any: ...

    def __getitem__(self, name: Any, /) -> Any: ...


@runtime_checkable
class ArrayLike(Protocol):
    """What NumPy converts to an array: its own arrays, PyTorch tensors, pandas Series, ..."""

    def __array__(self) -> Any: ...


@runtime_checkable
class Readable(Protocol):
    """An open file."""

    def read(self) -> Any: ...


FileLike: TypeAlias = "str | os.PathLike[str]"
"""The path of a file."""
PictureLike: TypeAlias = "FileLike | bytes | np.ndarray | PillowImage"
"""PNG, JPEG, GIF, BMP or WebP; or pixels as uint8: (height, width) or (height, width, 1, 3 or 4)."""
SoundLike: TypeAlias = "FileLike | bytes | Sound | tuple[np.ndarray, int]"
"""WAV, FLAC or OGG; or (samples, rate): floats between -1 and 1 or integers, of shape (N,) or (N, channels)."""
ClipLike: TypeAlias = "FileLike | bytes | np.ndarray"
"""An animated GIF; or frames as uint8 (frames, height, width, 1 or 3)."""
SeriesLike: TypeAlias = "FileLike | np.ndarray | Frame"
"""A CSV file, a DataFrame, or numbers (steps, columns); columns of files and DataFrames are selected by name."""
InputLike: TypeAlias = "PictureLike | SoundLike | SeriesLike"
"""Any of the above, or a text."""

FILES = (str, os.PathLike)
CONTENT = (bytes, bytearray, memoryview)


def is_frame(given: Any) -> bool:
    return isinstance(given, Frame)


def is_array(given: Any) -> bool:
    return isinstance(given, ArrayLike) and not is_frame(given)


def as_array(given: Any) -> np.ndarray:
    import numpy as np  # here, not above: it takes 0.1 s, and translating needs none

    try:
        return np.asarray(given)
    except (TypeError, ValueError, RuntimeError) as error:  # a tensor on a GPU, for one
        raise UserError(f"this cannot be made a NumPy array ({' '.join(str(error).split())})") from None


def read_named(read: Callable[[str], T], file: FileLike, takes: str) -> T:
    """Reads a file by its path; the error for a missing one says what the model takes."""
    try:
        name = os.fspath(file)
        there = Path(name).exists()
    except (OSError, ValueError, TypeError):  # too long for a name, or with characters that names cannot have
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
    if hasattr(given, "dtype") and hasattr(given, "shape"):
        return f"an array of {given.dtype} {given.shape}"
    return "None" if given is None else f"an object of type {type(given).__name__}"
