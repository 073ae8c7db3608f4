"""Model folders: written atomically, verified by hashes when read.

A folder is written under a temporary name, flushed to disk and renamed; `manifest.json` holds the format version and
a hash of every file. Folders are untrusted: only regular files are opened, up to the size in the manifest. Recipes,
tokenizers and weights are only bytes here; weights.py turns files into tensors.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import UserError
from regard.regular_files import open_regular, read_regular
from regard.terminal_text import escape_control_characters, one_line

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = 1
"""Incremented when older code could not read new folders."""
MANIFEST = "manifest.json"
WEIGHTS = "weights.safetensors"
CALIBRATION = "calibration.json"
"""What makes confidences of log-probabilities; the manifest does not list it, for it may be made later."""

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_TENSORS = (".safetensors", "model.bin")
"""Endings of the names of files with tensors; model.bin is CTranslate2's."""
_MAX_MANIFEST = 4_000_000
_MAX_SMALL = 32_000_000
"""Total bytes of a folder's files without tensors, which are kept in memory."""
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Folder:
    """A folder whose files were verified when it was opened."""

    path: Path
    names: tuple[str, ...]
    hash: str
    """One hash over all files: folders with the same hash are identical."""
    small: Mapping[str, bytes] = field(repr=False)
    """The files without tensors, as they were when their hashes were checked."""

    def read(self, name: str) -> bytes:
        """The content of a file without tensors."""
        self.file(name)
        return self.small[name]

    def tensors(self, name: str) -> dict[str, Tensor]:
        from regard.weights import load_tensors  # torch: not every reader of a folder needs it

        return load_tensors(self.file(name))

    def weights(self) -> dict[str, Tensor]:
        from regard.weights import load_weights

        return load_weights(self.file(WEIGHTS))

    def weights_on_meta(self) -> dict[str, Tensor]:
        """Names, shapes and types of the weights, from the header alone."""
        from regard.weights import weights_on_meta

        return weights_on_meta(self.file(WEIGHTS))

    def file(self, name: str) -> Path:
        if name not in self.names:
            raise UserError(f"{self.path}: there is no {name} in this folder; it holds {', '.join(self.names)}")
        return self.path / name


def write_folder(
    path: Path, files: Mapping[str, bytes | Callable[[Path], None]], unlisted: Mapping[str, bytes] | None = None
) -> None:
    """Writes all files and a manifest, then renames the folder to its final name, replacing an existing one.

    Files that are `unlisted` in the manifest may be edited: a card.
    """
    path = Path(path)
    temporary = path.parent / f".{path.name}.{os.getpid()}.tmp"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove(temporary)
        temporary.mkdir()
        entries = {}
        for name, content in files.items():
            if not _PLAIN_NAME.fullmatch(name) or name == MANIFEST:
                raise ValueError(f"'{name}' cannot be a file of a model folder")
            there = temporary / name
            if callable(content):
                content(there)
                digest = _sha256(there)
            else:
                there.write_bytes(content)
                digest = hashlib.sha256(content).hexdigest()  # of the intended content, not of what a bad disk returns
            _flush(there)
            entries[name] = {"size": there.stat().st_size, "sha256": digest}
        for name, text in (unlisted or {}).items():
            (temporary / name).write_bytes(text)
            _flush(temporary / name)
        _check_sizes(path, entries)  # never write what could not be read again
        (temporary / MANIFEST).write_bytes(_manifest(entries))
        _flush(temporary / MANIFEST)
        _flush(temporary)
        _take_name(temporary, path)
        _flush(path.parent)
    except OSError as error:
        _remove(temporary)
        raise _cannot_write(path, error) from error
    except BaseException:
        _remove(temporary)
        raise


def read_folder(path: Path, hash_tensors: bool = True) -> Folder:
    """Opens a folder after checking the version, and the size and hash of every file in its manifest.

    No file is read before all are known to be regular files of the stated size. Without `hash_tensors` the files with
    tensors are not read at all.
    """
    path = Path(path)
    try:
        raw = read_regular(path / MANIFEST, _MAX_MANIFEST)
    except OSError as error:
        raise UserError(f"{path}: no {MANIFEST} can be read here ({_why(error)}); this is not a model folder") from None
    broken = UserError(f"{path}: {MANIFEST} is damaged; take another copy of this folder")
    try:
        manifest = json.loads(raw)
        version, entries = manifest["format"], manifest["files"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise broken from None
    if version != FORMAT:
        shown = escape_control_characters(one_line(str(version)[:20]))
        raise UserError(
            f"{path}: {MANIFEST} says format version {shown}, this version of regard reads {FORMAT}; "
            "use the version of regard that wrote it"
        )
    try:
        whole = raw == _manifest(entries)  # detects any change of the manifest itself
    except (ValueError, TypeError, RecursionError):
        whole = False
    if not whole or not isinstance(entries, dict) or not all(map(_PLAIN_NAME.fullmatch, entries)):
        raise broken
    if not all(isinstance(entry, dict) and type(entry.get("size")) is int for entry in entries.values()):
        raise broken
    _check_sizes(path, entries)
    for name, entry in entries.items():
        _check_size(path / name, entry["size"])
    small = {name: _checked(path / name, entry) for name, entry in entries.items() if not name.endswith(_TENSORS)}
    for name, entry in entries.items():
        if hash_tensors and name.endswith(_TENSORS):
            _checked(path / name, entry, keep=False)
    return Folder(path, tuple(entries), manifest["hash"], small)


def read_small(path: Path) -> bytes:
    """Reads one file without tensors, without checking a manifest."""
    try:
        return read_regular(path, _MAX_SMALL)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({_why(error)})") from None


def clean_leftovers(folder: Path) -> None:
    """Removes leftovers of interrupted writes. Call it only as the sole writer."""
    for leftover in Path(folder).glob(".*.tmp"):
        _remove(leftover)


def write_file(path: Path, content: bytes) -> None:
    """Replaces one file atomically."""
    temporary = path.parent / f".{path.name}.{os.getpid()}.tmp"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        _flush(temporary)
        os.replace(temporary, path)
    except OSError as error:
        _remove(temporary)
        raise _cannot_write(path, error) from error


def _cannot_write(path: Path, error: OSError) -> UserError:
    why = error.strerror or error
    return UserError(f"cannot write {path}: {why}; what was there before is intact; make room or choose another folder")


def _manifest(entries: Mapping[str, Any]) -> bytes:
    body = {"format": FORMAT, "files": entries}
    whole = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    return (json.dumps({**body, "hash": whole}, indent=1, sort_keys=True) + "\n").encode()


def _check_sizes(path: Path, entries: Mapping[str, Any]) -> None:
    small = {name: entry["size"] for name, entry in entries.items() if not name.endswith(_TENSORS)}
    if sum(small.values()) > _MAX_SMALL:
        largest = max(small, key=lambda name: small[name])
        raise UserError(
            f"{path / largest}: {small[largest]:,} bytes; all files that hold no tensors may have {_MAX_SMALL:,}"
        )


def _check_size(path: Path, stated: int) -> None:
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        raise UserError(f"{path}: this file is missing; take another copy of the folder") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({_why(error)}); take another copy of the folder") from None
    if size != stated:
        raise _changed(path, size)


def _checked(path: Path, entry: Mapping[str, Any], keep: bool = True) -> bytes:
    """The content of a file after checking its hash; without `keep`, it is only hashed."""
    size, digest = entry["size"], hashlib.sha256()
    kept, left = [], size
    try:
        with open_regular(path) as file:
            while left > 0 and (block := file.read(min(left, _BLOCK))):
                digest.update(block)
                left -= len(block)
                if keep:
                    kept.append(block)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({_why(error)}); take another copy of the folder") from None
    if left or digest.hexdigest() != entry.get("sha256"):
        raise _changed(path, size)
    return b"".join(kept)


def _changed(path: Path, size: int) -> UserError:
    return UserError(f"{path}: this file is damaged or was changed ({size} bytes); take another copy of the folder")


def _why(error: OSError) -> str:
    return error.strerror or str(error)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush(path: Path) -> None:
    """Flushes a file, or the entries of a folder, to disk. Windows cannot flush folders."""
    if os.name == "nt" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDWR if path.is_file() else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _take_name(temporary: Path, path: Path) -> None:
    if not path.exists():
        os.rename(temporary, path)
        return
    aside = path.parent / f".{path.name}.{os.getpid()}.old.tmp"  # a non-empty folder cannot be renamed over
    _remove(aside)
    os.rename(path, aside)
    os.rename(temporary, path)
    _remove(aside)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
