"""Public data sets by name: a TOML file each with title, licence, and the size, checksum and address of every file.

A .gz file may arrive compressed differently or not at all; its content is compared then. Nothing here reads or fetches
the data themselves.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from regard.errors import UserError, suggestion

PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
"""A file name that cannot leave its folder."""
SHA256 = re.compile(r"[0-9a-f]{64}")
LARGEST = 1 << 32
"""Most bytes of a file."""


@dataclass(frozen=True)
class File:
    name: str
    size: int
    sha256: str
    content_size: int = 0
    """Uncompressed size in bytes, if the name ends in .gz."""
    content_sha256: str = ""
    url: str = ""
    """Where a file with this content can be fetched; may be empty."""

    def __post_init__(self) -> None:
        if not PLAIN.fullmatch(self.name):
            raise UserError(f"{self.name!r} cannot be a file of a data set; its name must be a plain one")
        if not 0 < self.size <= LARGEST or not 0 <= self.content_size <= LARGEST:
            raise UserError(f"{self.name}: a file of a data set has 1 to {LARGEST:,} bytes")
        if not SHA256.fullmatch(self.sha256) or self.content_sha256 and not SHA256.fullmatch(self.content_sha256):
            raise UserError(f"{self.name}: a checksum has 64 hexadecimal digits")
        if bool(self.content_size) != bool(self.content_sha256) or self.content_size and not self.packed:
            raise UserError(f"{self.name}: only a file in .gz has a content, and it has both a size and a checksum")
        if self.url:
            check_address(self.url)

    @property
    def packed(self) -> bool:
        return self.name.endswith(".gz")

    @property
    def limit(self) -> int:
        """Most bytes that it can arrive as. Deflate expands incompressible data by less than a thousandth."""
        return max(self.size, self.content_size + self.content_size // 1000 + 1024 if self.content_size else 0)


@dataclass(frozen=True)
class DataSet:
    name: str
    title: str
    use: str
    licence: str
    origin: str
    files: tuple[File, ...]
    changed: str = ""
    """How these files were made from the original ones."""

    def __post_init__(self) -> None:
        if not PLAIN.fullmatch(self.name):
            raise UserError(f"{self.name!r} cannot be a data set; its name must be a plain one")

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


def data_sets(folder: Path = Path(__file__).parent) -> dict[str, DataSet]:
    """Every public data set by its name, which is also that of its folder."""
    return {path.stem: _read(path) for path in sorted(folder.glob("*.toml"))}


def data_set(name: str) -> DataSet:
    found = data_sets()
    if name not in found:
        raise UserError(f"no data set '{name}'{suggestion(name, found)}")
    return found[name]


def _read(path: Path) -> DataSet:
    try:
        entry: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        files = tuple(File(**file) for file in entry.pop("files"))
        return DataSet(name=path.stem, files=files, **entry)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: does not describe a data set ({error})") from None


def check_address(url: str, seen_from: str = "") -> None:
    """Refuses addresses other than https. Plain http is allowed for this machine, but not as a redirect from https."""
    try:
        parts = urlsplit(url)
        safe = parts.scheme == "https" and bool(parts.hostname)
        inside = parts.scheme == "http" and on_this_machine(url) and not seen_from.startswith("https:")
    except ValueError:
        safe = inside = False
    if not safe and not inside:
        leads = f"{seen_from} leads to {url}" if seen_from else url
        raise UserError(f"{leads}: only https is fetched from (and http from this machine itself)")


def on_this_machine(url: str) -> bool:
    from ipaddress import ip_address

    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
