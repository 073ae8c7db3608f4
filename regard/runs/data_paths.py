"""The files that the data section of a recipe names, those of the entries of `[[data.pairs]]` included."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from regard.config import Data

PATHS = ("source", "target", "valid_source", "valid_target", "hold_out", "train", "valid", "test")
"""The keys of the data section that name files."""
OF_ENTRIES = ("source", "target", "valid_source", "valid_target")
"""The keys of an entry of data.pairs that name files."""


def data_paths(data: Data) -> dict[str, list[str]]:
    """The paths by key; the entries of data.pairs have keys such as pairs.1.source."""
    found = {name: list(getattr(data, name)) for name in PATHS}
    for number, entry in enumerate(data.pairs, 1):
        found |= {f"pairs.{number}.{name}": list(getattr(entry, name)) for name in OF_ENTRIES}
    return found


def with_paths(data: Data, change: Callable[[str], str]) -> Data:
    """The data section with every path changed."""
    own: dict[str, Any] = {name: list(map(change, getattr(data, name))) for name in PATHS}
    entries = []
    for entry in data.pairs:
        of_entry: dict[str, Any] = {name: list(map(change, getattr(entry, name))) for name in OF_ENTRIES}
        entries.append(replace(entry, **of_entry))
    return replace(data, pairs=entries, **own)
