"""Finds the source of a function: dotted path -> object -> file and line."""

from __future__ import annotations

import inspect
import pkgutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Place:
    name: str
    """The short name, such as `LSTM.step`."""
    file: str
    """The path from the folder of the package, such as `regard/layers/cell/lstm.py`."""
    line: int


def place(path: str) -> Place:
    """Resolves a dotted path such as `regard.layers.cell.lstm.LSTM.step`."""
    found: Any = pkgutil.resolve_name(path)
    module = sys.modules[found.__module__]
    top = sys.modules[module.__name__.partition(".")[0]]
    file, package = Path(inspect.getfile(module)), Path(inspect.getfile(top))
    _, line = inspect.getsourcelines(inspect.unwrap(found))
    name = path.removeprefix(f"{module.__name__}.")
    return Place(name, file.relative_to(package.parents[1]).as_posix(), line)
