"""IDX files as MNIST and similar data sets publish them: one file of images, one of labels, optionally gzipped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from regard.data.bounded import check_size
from regard.data.compressed import DAMAGED, most_in_memory, open_expanded
from regard.data.format._base import Example, Format, Sample
from regard.errors import UserError

__all__ = ["Idx"]

MOST_BYTES = 4_000_000_000


class Idx(Format):
    """Grey images and the names of their labels."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        """`names` are the names of labels 0, 1, ...; without them the numbers are the names."""
        if isinstance(names, str) or len(set(names)) < len(names):
            raise UserError("data.format.names: wants a list of different names, one for each label")
        self.names = [str(name) for name in names]

    @classmethod
    def sample(cls) -> Sample:
        images = np.arange(8, dtype=np.uint8).reshape(2, 2, 2)
        sizes = np.array(images.shape, ">u4").tobytes()
        return Sample(
            {"images": b"\0\0\x08\x03" + sizes + images.tobytes(), "labels": b"\0\0\x08\x01\0\0\0\x02\x07\x03"},
            [Example(images[0, ..., None], "7"), Example(images[1, ..., None], "3")],
        )

    def read(self, files: Sequence[Path], part: str) -> list[Example]:
        arrays = {array.ndim: array for array in map(_read, files)}
        if len(files) != 2 or arrays.keys() != {1, 3}:
            raise UserError("data.format: idx wants two files a part, one with images and one with their labels")
        images, labels = arrays[3][..., None], arrays[1].tolist()
        if len(images) != len(labels):
            counts = f"{len(images)} images, {len(labels)} labels"
            raise UserError(f"{files[0]} and {files[1]} do not belong together: {counts}")
        if self.names and max(labels) >= len(self.names):
            raise UserError(f"data.format.names: {len(self.names)} names, but a label {max(labels)}; name them all")
        names = self.names or [str(label) for label in range(256)]
        return [Example(image, names[label]) for image, label in zip(images, labels)]


def _read(file: Path) -> np.ndarray:
    """The array in an IDX file: two zero bytes, the type, the number of axes, the length of each axis, the values."""
    check_size(file, MOST_BYTES)
    packed = file.suffix == ".gz"
    most = file.stat().st_size * (1032 if packed else 1)  # the limit of deflate
    try:
        with open_expanded(file, ".gz" if packed else "") as stream:
            magic = stream.read(4)
            if magic not in (b"\0\0\x08\x01", b"\0\0\x08\x03"):
                raise UserError(f"{file}: is no IDX file of images or labels; check the name")
            axes = magic[3]
            shape = np.frombuffer(stream.read(4 * axes).ljust(4 * axes, b"\0"), ">u4").tolist()
            count = math.prod(shape)
            if not 0 < count <= min(most, most_in_memory(file, MOST_BYTES)):
                raise UserError(f"{file}: its header promises what it cannot hold, {shape}; check the file")
            values = stream.read(count + 1)
    except (*DAMAGED, ValueError) as error:
        raise UserError(f"{file}: cannot be read ({error}); check the file") from None
    if len(values) != count:
        raise UserError(f"{file}: its header promises {count:,} values, but it holds more or fewer; check the file")
    return np.frombuffer(values, np.uint8).reshape(shape)
