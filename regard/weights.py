"""Weights as safetensors files, in float32, bfloat16 or int8; the header is checked before that library parses it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import UserError
from regard.safetensors_header import read_header

PRECISIONS = ("float32", "bfloat16", "int8")

_DTYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
}
_ROWS = 4096
"""Rows of a matrix that are converted at a time."""
_ORDER = ("BOOL", "U8", "I8", "I16", "F16", "BF16", "I32", "F32", "F64", "I64")
"""The order of types in a file of the safetensors library, from its end."""


def save_weights(tensors: Mapping[str, Tensor], precision: str = "float32") -> bytes:
    """Weights as a safetensors file; `int8` quantises 2-D weights to [-127, 127] with one scale per row."""
    stored: dict[str, Tensor] = {}
    scaled = _scaled(tensors, precision)
    for name, tensor in tensors.items():
        stored.update(_stored(name, tensor.detach().cpu(), precision, name in scaled))
    return save_tensors(stored, {"precision": precision, "scaled": scaled})


def write_weights(path: Path, tensors: dict[str, Tensor], precision: str = "float32", where: str = "weights") -> None:
    """Writes the file of `save_weights` tensor by tensor and empties `tensors`: no second copy is ever in memory."""
    scaled = _scaled(tensors, precision)
    with torch.device("meta"):
        meta = {name: torch.empty(tensor.shape, dtype=tensor.dtype) for name, tensor in tensors.items()}
    described = {
        stored: (tensor, name)
        for name, alike in meta.items()
        for stored, tensor in _stored(name, alike, precision, name in scaled).items()
    }
    names = {kind: name for name, kind in _DTYPES.items()}
    notes = json.dumps({"precision": precision, "scaled": scaled}, sort_keys=True)
    header: dict[str, Any] = {"__metadata__": {"regard": notes}}
    end = 0
    order = sorted(described, key=lambda name: (-_ORDER.index(names[described[name][0].dtype]), name))
    for name in order:  # the order of the safetensors library
        tensor = described[name][0]
        begin, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    waiting: dict[str, Tensor] = {}
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            if name not in waiting:
                origin = described[name][1]
                tensor = tensors.pop(origin).detach().cpu()
                _refuse_non_finite(origin, tensor, where)
                waiting.update(_stored(origin, tensor, precision, origin in scaled))
                del tensor
            file.write(waiting.pop(name).contiguous().reshape(-1).view(torch.uint8).numpy().data)


def _scaled(tensors: Mapping[str, Tensor], precision: str) -> list[str]:
    """The names of the tensors that are quantised."""
    if precision not in PRECISIONS:
        raise UserError(f"precision '{precision}' is not known; use {', '.join(PRECISIONS)}")
    return sorted(name for name, t in tensors.items() if precision == "int8" and _quantised(t))


def _quantised(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and tensor.dim() == 2 and tensor.numel() > 0


def _stored(name: str, tensor: Tensor, precision: str, scaled: bool) -> dict[str, Tensor]:
    """The tensors that are stored for a weight, by name."""
    if not tensor.is_floating_point():
        return {name: tensor}
    if scaled:
        _refuse_non_finite(name, tensor)
        weight, scale = _quantise(tensor.float())
        return {name: weight, f"{name}.scale": scale}
    return {name: tensor.to(torch.bfloat16 if precision == "bfloat16" else torch.float32)}


def lossless_precision(tensors: Mapping[str, Tensor]) -> str:
    """The smallest precision in which every weight but the vectors stays as it is; for int8, up to rounding.

    It is `float16`, which is none of PRECISIONS, where that alone would do.
    """
    matrices = [tensor for tensor in tensors.values() if tensor.is_floating_point() and tensor.dim() > 1]
    fits = {
        "int8": _fits_int8,
        "bfloat16": lambda rows: torch.equal(rows.bfloat16().to(rows.dtype), rows),
        "float16": lambda rows: torch.equal(rows.half().to(rows.dtype), rows),
    }
    for precision, test in fits.items():
        if matrices and all(test(rows) for matrix in matrices for rows in matrix.split(_ROWS)):
            return precision
    return "float32"


def _fits_int8(rows: Tensor) -> bool:
    if rows.dim() != 2 or not rows.numel():
        return False
    weight, scale = _quantise(rows.float())
    error = (weight.float() * scale[:, None] - rows.float()).abs().amax(dim=1)
    return bool((error <= 127 * scale * 2.0**-20).all())  # who divided by the inverse of the scale rounded otherwise


def load_weights(source: bytes | Path) -> dict[str, Tensor]:
    """The weights of `save_weights`, dequantised to float32. Integers and booleans keep their type."""
    return _widened(*_load(source), _label(source))


def weights_on_meta(source: bytes | Path) -> dict[str, Tensor]:
    """The result of `load_weights` on the meta device: names, shapes and types, read from the header only."""
    header = read_header(source)
    try:
        tensors = {
            name: torch.empty(tensor.shape, dtype=_DTYPES[tensor.dtype], device="meta")
            for name, tensor in header.tensors.items()
        }
    except (RuntimeError, OverflowError):  # dimensions too large to count
        raise UserError(f"{_label(source)}: not a usable weight file: a shape is not possible") from None
    return _widened(tensors, header.notes, _label(source))


def _widened(tensors: dict[str, Tensor], notes: Mapping[str, Any], where: str) -> dict[str, Tensor]:
    scaled = notes.get("scaled", [])
    if not isinstance(scaled, list) or not all(isinstance(name, str) for name in scaled):
        raise UserError(f"{where}: not a usable weight file: its metadata is not valid")
    for name in scaled:
        weight, scale = tensors.get(name), tensors.pop(f"{name}.scale", None)
        if weight is None or scale is None or weight.dtype != torch.int8 or weight.dim() != 2:
            raise UserError(f"{where}: {name[:80]!r} has no usable scale; take another copy of the file")
        if scale.dtype != torch.float32 or scale.shape != weight.shape[:1]:
            raise UserError(f"{where}: the scale of {name[:80]!r} has another shape than its rows")
        tensors[name] = weight.float() * scale[:, None]
        _refuse_non_finite(name, tensors[name], where)
    wide = {name: tensor.float() for name, tensor in tensors.items() if tensor.dtype == torch.float64}
    for name, tensor in wide.items():
        _refuse_non_finite(name, tensor, where)
    return {name: wide.get(name, t.float() if t.is_floating_point() else t) for name, t in tensors.items()}


def save_tensors(tensors: Mapping[str, Tensor], notes: Mapping[str, Any] | None = None) -> bytes:
    """Tensors of any type as a safetensors file, without quantisation; equal tensors give equal bytes."""
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

    notes = read_header(source).notes
    try:
        tensors = load(source) if isinstance(source, bytes) else load_file(source)
    except (SafetensorError, OSError, ValueError, RuntimeError, KeyError) as error:
        raise UserError(f"{_label(source)}: not a usable weight file ({str(error)[:80]})") from None
    for name, tensor in tensors.items():
        _refuse_non_finite(name, tensor, _label(source))
    return tensors, notes


def _quantise(weight: Tensor) -> tuple[Tensor, Tensor]:
    if len(weight) > _ROWS and not weight.is_meta:  # no copies of a whole table
        weights, scales = zip(*map(_quantise, weight.split(_ROWS)))
        return torch.cat(weights), torch.cat(scales)
    scale = weight.abs().amax(dim=1) / 127
    steps = weight / scale.clamp_min(torch.finfo(torch.float32).tiny)[:, None]
    return steps.round().clamp(-127, 127).to(torch.int8), scale


def _refuse_non_finite(name: str, tensor: Tensor, where: str = "weights") -> None:
    if tensor.is_floating_point() and tensor.numel() and not tensor.is_meta:
        low, high = torch.aminmax(tensor)  # NaN if any value is; allocates nothing
        if not (math.isfinite(low.item()) and math.isfinite(high.item())):
            raise UserError(f"{where}: {name[:80]!r} holds values that are not finite numbers")


def _label(source: bytes | Path) -> str:
    return "weights" if isinstance(source, bytes) else str(source)
