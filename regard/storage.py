"""The model folder: files that arrive whole or not at all, and say so when they were changed.

A folder is written under a temporary name, flushed to the disk and renamed; `manifest.json` holds the format version
and a hash of every file. Tensors are kept in safetensors, and a header is checked here before that library sees it.
What the files mean (recipe, tokenizer, optimizer) is not known here.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import UserError

FORMAT = 1
"""Raised when a folder written now could not be read by older code."""
MANIFEST = "manifest.json"
WEIGHTS = "weights.safetensors"
PRECISIONS = ("float32", "bfloat16", "int8")

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_BYTES = {"BOOL": 1, "U8": 1, "I8": 1, "I16": 2, "I32": 4, "I64": 8, "F16": 2, "BF16": 2, "F32": 4, "F64": 8}
_MAX_HEADER = 16_000_000
_MAX_TENSORS = 100_000
_MAX_RANK = 8


# ---------------------------------------------------------------------------------------------------------- folders


@dataclass(frozen=True)
class Folder:
    """A folder whose files were found whole when it was opened."""

    path: Path
    names: tuple[str, ...]
    hash: str
    """One hash over all files: two folders are the same when theirs are."""

    def read(self, name: str) -> bytes:
        return self._file(name).read_bytes()

    def tensors(self, name: str) -> dict[str, Tensor]:
        return load_tensors(self._file(name))

    def weights(self) -> dict[str, Tensor]:
        return load_weights(self._file(WEIGHTS))

    def _file(self, name: str) -> Path:
        if name not in self.names:
            raise UserError(f"{self.path}: there is no {name} in this folder; it holds {', '.join(self.names)}")
        return self.path / name


def write_folder(path: Path, files: Mapping[str, bytes | Callable[[Path], None]]) -> None:
    """Writes all files and a manifest, and only then gives the folder its name. A folder of that name is replaced."""
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
                digest = hashlib.sha256(content).hexdigest()  # of what was meant, not of what a bad disk gives back
            _flush(there)
            entries[name] = {"size": there.stat().st_size, "sha256": digest}
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


def read_folder(path: Path) -> Folder:
    """Opens a folder after checking the version, the size and the hash of every file in its manifest."""
    path = Path(path)
    try:
        raw = (path / MANIFEST).read_bytes()
    except OSError:
        raise UserError(f"{path}: no {MANIFEST} can be read here; this is not a model folder") from None
    broken = UserError(f"{path}: {MANIFEST} is damaged; take another copy of this folder")
    try:
        manifest = json.loads(raw)
        version, entries = manifest["format"], manifest["files"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise broken from None
    if version != FORMAT:
        raise UserError(
            f"{path}: {MANIFEST} says format version {str(version)[:20]}, this version of regard reads {FORMAT}; "
            "use the version of regard that wrote it"
        )
    try:
        whole = raw == _manifest(entries)  # any change of the manifest itself shows here
    except (ValueError, TypeError, RecursionError):
        whole = False
    if not whole or not isinstance(entries, dict) or not all(_PLAIN_NAME.fullmatch(name) for name in entries):
        raise broken
    for name, entry in entries.items():
        _check_file(path / name, entry)
    return Folder(path, tuple(entries), manifest["hash"])


def clean_leftovers(folder: Path) -> None:
    """Removes what interrupted writes left behind; only for whoever is sure to be the only writer."""
    for leftover in Path(folder).glob(".*.tmp"):
        _remove(leftover)


def write_file(path: Path, content: bytes) -> None:
    """Replaces one file as a whole."""
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


def _check_file(path: Path, entry: Any) -> None:
    try:
        size = path.stat().st_size if path.is_file() else -1
        fits = size == entry["size"] and _sha256(path) == entry["sha256"]
    except (OSError, KeyError, TypeError):
        size, fits = -1, False
    if size < 0:
        raise UserError(f"{path}: this file is missing; take another copy of the folder")
    if not fits:
        raise UserError(f"{path}: this file is damaged or was changed ({size} bytes); take another copy of the folder")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush(path: Path) -> None:
    """Asks the disk to keep a file, or the names in a folder. Windows cannot do the latter."""
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
    aside = path.parent / f".{path.name}.{os.getpid()}.old.tmp"  # no system renames over a folder that is not empty
    _remove(aside)
    os.rename(path, aside)
    os.rename(temporary, path)
    _remove(aside)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


# ---------------------------------------------------------------------------------------------------------- tensors


def save_weights(tensors: Mapping[str, Tensor], precision: str = "float32") -> bytes:
    """Weights as a safetensors file; `int8` rounds a 2-D weight to 127 steps on either side and keeps a scale a row."""
    if precision not in PRECISIONS:
        raise UserError(f"precision '{precision}' is not known; use {', '.join(PRECISIONS)}")
    stored: dict[str, Tensor] = {}
    scaled: list[str] = []
    for name, tensor in tensors.items():
        tensor = tensor.detach().cpu()
        if not tensor.is_floating_point():
            stored[name] = tensor
        elif precision == "int8" and tensor.dim() == 2 and tensor.numel():
            _refuse_non_finite(name, tensor)
            stored[name], stored[f"{name}.scale"] = _quantise(tensor.float())
            scaled.append(name)
        else:
            stored[name] = tensor.to(torch.bfloat16 if precision == "bfloat16" else torch.float32)
    return save_tensors(stored, {"precision": precision, "scaled": sorted(scaled)})


def load_weights(source: bytes | Path) -> dict[str, Tensor]:
    """What `save_weights` kept, in float32 (rounded as it was kept). Integers and booleans stay what they are."""
    tensors, notes = _load(source)
    for name in notes.get("scaled", []) if isinstance(notes.get("scaled", []), list) else []:
        weight, scale = tensors.get(name), tensors.pop(f"{name}.scale", None)
        if weight is None or scale is None or weight.dtype != torch.int8 or weight.dim() != 2:
            raise UserError(f"{_label(source)}: '{str(name)[:80]}' has no usable scale; take another copy of the file")
        if scale.dtype != torch.float32 or scale.shape != weight.shape[:1]:
            raise UserError(f"{_label(source)}: the scale of '{name[:80]}' has another shape than its rows")
        tensors[name] = weight.float() * scale[:, None]
        _refuse_non_finite(name, tensors[name], _label(source))
    wide = {name: tensor.float() for name, tensor in tensors.items() if tensor.dtype == torch.float64}
    for name, tensor in wide.items():
        _refuse_non_finite(name, tensor, _label(source))
    return {name: wide.get(name, t.float() if t.is_floating_point() else t) for name, t in tensors.items()}


def save_tensors(tensors: Mapping[str, Tensor], notes: Mapping[str, Any] | None = None) -> bytes:
    """Tensors of any type, unrounded, as a safetensors file; the same tensors always give the same bytes."""
    from safetensors.torch import save

    ready: dict[str, Tensor] = {}
    storages: set[int] = set()
    for name, tensor in tensors.items():
        tensor = tensor.detach().cpu().contiguous()
        _refuse_non_finite(name, tensor)
        storage = tensor.untyped_storage().data_ptr()
        ready[name] = tensor.clone() if storage in storages else tensor  # the library refuses shared memory
        storages.add(storage)
    # one key only: safetensors writes several in an order that changes from run to run
    return save(ready, {"regard": json.dumps(notes or {}, sort_keys=True)})


def load_tensors(source: bytes | Path) -> dict[str, Tensor]:
    """The tensors of a file as they are stored."""
    return _load(source)[0]


def _load(source: bytes | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    from safetensors import SafetensorError
    from safetensors.torch import load, load_file

    notes = check_header(source)
    try:
        tensors = load(source) if isinstance(source, bytes) else load_file(source)
    except (SafetensorError, OSError, ValueError, RuntimeError, KeyError) as error:
        raise UserError(f"{_label(source)}: not a usable weight file ({str(error)[:80]})") from None
    for name, tensor in tensors.items():
        _refuse_non_finite(name, tensor, _label(source))
    return tensors, notes


def _quantise(weight: Tensor) -> tuple[Tensor, Tensor]:
    scale = weight.abs().amax(dim=1) / 127
    steps = weight / scale.clamp_min(torch.finfo(torch.float32).tiny)[:, None]
    return steps.round().clamp(-127, 127).to(torch.int8), scale


def _refuse_non_finite(name: str, tensor: Tensor, where: str = "weights") -> None:
    if tensor.is_floating_point() and tensor.numel():
        low, high = torch.aminmax(tensor)  # both are NaN when any value is; takes no memory
        if not (math.isfinite(low.item()) and math.isfinite(high.item())):
            raise UserError(f"{where}: '{name[:80]}' holds values that are not finite numbers")


def _label(source: bytes | Path) -> str:
    return "weights" if isinstance(source, bytes) else str(source)


# ---------------------------------------------------------------------------------------------------------- headers


def check_header(source: bytes | Path) -> dict[str, Any]:
    """Refuses a safetensors file whose header does not describe exactly the bytes that follow. Returns its notes.

    Time and memory are bounded whatever the header says: it is measured and its brackets counted before it is parsed.
    """

    def refuse(why: str) -> UserError:
        return UserError(f"{_label(source)}: not a usable weight file: {why}")

    with _opened(source) as (read, size):
        if size < 8:
            raise refuse("it is shorter than a header")
        length = int.from_bytes(read(8), "little", signed=True)
        if not 2 <= length <= size - 8:
            raise refuse("its header is longer than the file")
        if length > _MAX_HEADER:
            raise refuse(f"its header is larger than {_MAX_HEADER // 1_000_000} MB")
        header = read(length)
    if not header.isascii():
        raise refuse("its header holds characters outside ASCII")
    if header.count(b"{") > _MAX_TENSORS + 2 or header.count(b"[") > 2 * _MAX_TENSORS:
        raise refuse(f"it has more than {_MAX_TENSORS:,} tensors")
    if header.count(b",") > 10 * _MAX_TENSORS:
        raise refuse("its header has too many values")
    try:
        entries = json.loads(header, object_pairs_hook=_span_or_table)
    except (ValueError, RecursionError) as error:
        raise refuse(f"its header is not valid ({str(error)[:80]})") from None
    if not isinstance(entries, dict):
        raise refuse("its header is not an object")
    metadata = entries.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise refuse("its metadata is not text")
    if len(entries) > _MAX_TENSORS:
        raise refuse(f"it has more than {_MAX_TENSORS:,} tensors")

    for name, span in entries.items():
        if not isinstance(span, tuple):
            raise refuse(f"{name[:80]!r} is not described by dtype, shape and data_offsets")
    position = 0
    for begin, end in sorted(entries.values()):
        if begin != position:
            raise refuse("its tensors overlap or leave a gap")
        position = end
    if position != size - 8 - length:
        raise refuse("its tensors do not fill the file")
    return _notes(metadata, refuse)


def _span_or_table(pairs: list[tuple[str, Any]]) -> tuple[int, int] | dict[str, Any]:
    """An object of the header as soon as it is parsed: where a tensor's bytes begin and end, or some other table."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    if found.keys() != {"dtype", "shape", "data_offsets"}:
        return found
    kind, shape, offsets = found["dtype"], found["shape"], found["data_offsets"]
    if not isinstance(kind, str) or kind not in _BYTES:
        raise ValueError("a dtype is not known")
    if not isinstance(shape, list) or len(shape) > _MAX_RANK or not all(map(_is_count, shape)):
        raise ValueError("a shape is not possible")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_count, offsets)):
        raise ValueError("offsets are not possible")
    if math.prod(shape) * _BYTES[kind] != offsets[1] - offsets[0]:
        raise ValueError("a tensor has another size than its shape says")
    return offsets[0], offsets[1]


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _notes(metadata: Mapping[str, str], refuse: Callable[[str], UserError]) -> dict[str, Any]:
    try:
        notes = json.loads(metadata.get("regard", "{}"))
    except (ValueError, RecursionError):
        notes = None
    if not isinstance(notes, dict):
        raise refuse("its metadata is not valid")
    return notes


@contextlib.contextmanager
def _opened(source: bytes | Path) -> Iterator[tuple[Callable[[int], bytes], int]]:
    if isinstance(source, bytes):
        yield _reader(source), len(source)
        return
    try:
        with Path(source).open("rb") as file:
            yield file.read, os.fstat(file.fileno()).st_size
    except OSError as error:
        raise UserError(f"{source}: cannot be read ({error.strerror})") from None


def _reader(data: bytes) -> Callable[[int], bytes]:
    position = 0

    def read(count: int) -> bytes:
        nonlocal position
        position += count
        return data[position - count : position]

    return read
