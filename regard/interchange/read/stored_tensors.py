"""The tensors of one or several safetensors files by name: shapes from their headers, each read when it is used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.errors import UserError
from regard.safetensors_header import read_header

_FLOATS = {"F16", "BF16", "F32", "F64"}


class Place(NamedTuple):
    file: Path
    name: str
    shape: tuple[int, ...]
    dtype: str
    load: Callable[[], Tensor] | None = None
    """Reads a tensor that is in no safetensors file."""


class StoredTensors:
    """A context manager: the files are open inside it."""

    def __init__(self, files: Iterable[Path], aliases: Mapping[str, str], where: Path) -> None:
        self.where = where
        self._places: dict[str, Place] = {}
        for file in files:
            for name, tensor in read_header(file).tensors.items():
                if name in self._places:
                    raise UserError(f"{file}: tensor {name[:80]!r} is in another file, too; take another copy")
                self._places[name] = Place(file, name, tensor.shape, tensor.dtype)
        for alias, name in aliases.items():
            if name in self._places and alias not in self._places:
                self._places[alias] = self._places[name]
        self._stack, self._open = ExitStack(), dict[Path, Any]()

    def add(self, name: str, shape: tuple[int, ...], load: Callable[[], Tensor]) -> None:
        """A tensor of a file in another format."""
        self._places[name] = Place(self.where, name, shape, "F32", load)

    def __enter__(self) -> StoredTensors:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def names(self) -> set[str]:
        return set(self._places)

    def rename(self, prefix: str, kept: Iterable[str]) -> None:
        """Puts a prefix before every name: files of a bare model leave it out."""
        same = set(kept)
        self._places = {name if name in same else prefix + name: place for name, place in self._places.items()}

    def rename_all(self, new_name: Callable[[str], str]) -> None:
        """Puts another name in the place of each; two may not get the same one."""
        renamed: dict[str, Place] = {}
        for name, place in self._places.items():
            if (new := new_name(name)) in renamed:
                raise UserError(f"{self.where}: tensor {name[:80]!r} is there under two names; take another copy")
            renamed[new] = place
        self._places = renamed

    def shape(self, name: str) -> tuple[int, ...]:
        return self._place(name).shape

    def same(self, one: str, other: str) -> bool:
        """Whether two names have the same values."""
        first, second = self._place(one), self._place(other)
        if first == second:
            return True
        return first.shape == second.shape and torch.equal(self.read(one), self.read(other))

    def read(self, name: str) -> Tensor:
        """One tensor in float32."""
        from safetensors import SafetensorError, safe_open

        place = self._place(name)
        if place.load is not None:
            return place.load()
        if place.dtype not in _FLOATS:
            raise UserError(f"{place.file}: tensor {name[:80]!r} holds {place.dtype} instead of floating-point numbers")
        try:
            if place.file not in self._open:
                self._open[place.file] = self._stack.enter_context(safe_open(place.file, framework="pt"))
            tensor: Tensor = self._open[place.file].get_tensor(place.name)
        except (SafetensorError, OSError, ValueError, RuntimeError) as error:
            why = " ".join(str(error).split())[:80]
            raise UserError(f"{place.file}: tensor {name[:80]!r} cannot be read ({why})") from None
        return tensor.float()

    def _place(self, name: str) -> Place:
        if name not in self._places:
            raise UserError(f"{self.where}: tensor {name[:80]!r} is missing; take another copy of the folder")
        return self._places[name]


def shards(index: Mapping[str, Any], ending: str, where: Path) -> list[str]:
    """The files that an index names, which are plain names."""
    table = index.get("weight_map")
    if not isinstance(table, dict) or not all(isinstance(file, str) for file in table.values()):
        raise UserError(f"{where}: no weight_map in it; take another copy")
    found = sorted(set(table.values()))
    if not found or len(found) > 1000 or not all(file.endswith(ending) for file in found):
        raise UserError(f"{where}: its weight_map does not name {ending} files; take another copy")
    return found
