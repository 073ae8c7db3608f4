"""A folder written by another program, read with limits: plain names, regular files, nothing outside the folder."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.regular_files import read_regular

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_MOST_NAMES = 10_000
_MAX_SMALL = 1 << 27
"""Bytes of the largest file without tensors: vocabularies of many languages have tens of megabytes."""


class ForeignFolder:
    """The files of a folder by name. A link that leads out of the folder is not among them."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.names: set[str] = set()
        try:
            root = os.path.realpath(self.path)
            with os.scandir(self.path) as entries:
                for number, entry in enumerate(entries):
                    if number >= _MOST_NAMES:
                        raise UserError(f"{self.path}: more than {_MOST_NAMES:,} files; this is no folder of a model")
                    if _PLAIN_NAME.fullmatch(entry.name) and os.path.dirname(os.path.realpath(entry.path)) == root:
                        self.names.add(entry.name)
        except OSError as error:
            raise UserError(
                f"{self.path}: cannot be read ({error.strerror or error}); give the folder of a model"
            ) from None

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def file(self, name: str) -> Path:
        """The path of a file that the folder itself lists."""
        if name not in self.names:
            shown = name if _PLAIN_NAME.fullmatch(name) else repr(name[:80])
            raise UserError(f"{self.path}: {shown} is missing, or is a link out of the folder; take another copy")
        return self.path / name

    def read(self, name: str) -> bytes:
        """The content of a file without tensors."""
        try:
            return read_regular(self.file(name), _MAX_SMALL)
        except OSError as error:
            raise UserError(f"{self.path / name}: cannot be read ({error.strerror or error})") from None

    def json(self, name: str) -> dict[str, Any]:
        """A file that holds a JSON object."""
        try:
            found = json.loads(self.read(name))
        except (ValueError, RecursionError):
            raise UserError(f"{self.path / name}: not valid JSON; take another copy") from None
        if not isinstance(found, dict):
            raise UserError(f"{self.path / name}: not a JSON object; take another copy")
        return found

    def json_if_there(self, name: str) -> dict[str, Any]:
        return self.json(name) if name in self else {}
