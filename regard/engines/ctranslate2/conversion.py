"""Converts a model folder into CTranslate2's format, with NumPy alone.

CTranslate2's own converters import torch, so its binary format is written here: a list of named arrays. The tests
compare the file with the one that its library writes. What it cannot run, `why_not` says in a few words.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from io import BufferedIOBase
from typing import Any

import numpy as np

from regard.config import Recipe
from regard.engines.ctranslate2.limits import ACTIVATIONS, positions_needed, table, why_not
from regard.engines.ctranslate2.stored_weights import Matrix, StoredWeights
from regard.errors import UserError
from regard.special_tokens import BEGIN, END, UNKNOWN

PRECISIONS = ("float32", "bfloat16", "float16", "int16", "int8")

_FORMAT, _REVISION = 6, 7
_TYPES = {"float32": 0, "int8": 1, "int16": 2, "float16": 4, "uint16": 5}
"""CTranslate2's numbers of types; bfloat16 is held as uint16."""
_SMALLEST = np.finfo(np.float32).tiny
"""Rows with a scale below it are zero: its reciprocal would be infinite."""


def convert(
    recipe: Recipe,
    weights: StoredWeights,
    pieces: Sequence[str],
    out: BufferedIOBase,
    precision: str = "int8",
    layer: int | None = None,
) -> dict[str, bytes]:
    """Writes model.bin to `out`; returns the other files of the folder by name.

    Token i is spelled `pieces[i]`. The model returns the attention of a decoder `layer`, by default the last.
    """
    if why := why_not(recipe):
        raise UserError(why)
    if precision not in PRECISIONS:
        raise UserError(f"precision '{precision}' is not known to CTranslate2; use {', '.join(PRECISIONS)}")
    if len(set(pieces)) < len(pieces):
        raise UserError("two tokens of this model are spelled alike, so CTranslate2 cannot tell them apart")
    model = _Model(recipe, weights, len(pieces), recipe.model["decoder"]["layers"] - 1 if layer is None else layer)
    variables = dict(model.variables())
    if (extra := weights.leftover()) is not None:
        raise UserError(f"weight {extra[:80]!r} is not part of this model")
    _write(out, variables, model.aliases, precision)
    config = {
        "add_source_bos": False,
        "add_source_eos": recipe.data.source_end,
        "bos_token": pieces[BEGIN],
        "decoder_start_token": pieces[BEGIN],
        "eos_token": pieces[END],
        "layer_norm_epsilon": None,
        "multi_query_attention": False,
        "unk_token": pieces[UNKNOWN],
    }
    return {
        "config.json": json.dumps(config, indent=2, sort_keys=True).encode(),
        "shared_vocabulary.json": json.dumps(list(pieces), indent=2).encode(),
    }


class _Model:
    """The variables of a model under CTranslate2's names; `aliases` are names of variables that are stored once."""

    def __init__(self, recipe: Recipe, weights: StoredWeights, vocabulary: int, layer: int):
        self._tree, self._weights, self._vocabulary = recipe.model, weights, vocabulary
        self._positions = positions_needed(recipe)
        self._layer = layer
        self.aliases: dict[str, str] = {}

    def variables(self) -> Iterator[tuple[str, Any]]:
        stem, encoder, decoder = (self._tree[part] for part in ("stem", "encoder", "decoder"))
        yield from self._embedding("decoder", "decoder.embedding", decoder, "stem.embedding.")
        yield from self._stack("decoder", decoder)
        yield "decoder/alibi", False
        yield "decoder/alibi_use_positive_positions", False
        yield "decoder/scale_alibi", False
        yield "decoder/start_from_zero_embedding", False
        yield "decoder/alignment_layer", np.int16(self._layer)
        yield "decoder/alignment_heads", np.int16(decoder["heads"])
        if decoder.get("tie", True):
            self.aliases["decoder/projection/weight"] = "decoder/embeddings/weight"
        else:
            yield (
                "decoder/projection/weight",
                self._weights.matrix("decoder.output.weight", *self._table_shape(decoder)),
            )
        yield from self._embedding("encoder", "stem.embedding", stem, "")
        yield from self._stack("encoder", encoder)
        yield "encoder/embeddings_merge", False
        yield "encoder/multi_query_attention", False
        if stem.get("embedding_norm"):
            yield from self._norm("encoder/layernorm_embedding", "stem.embedding.norm", stem["width"])

    def _table_shape(self, spec: dict[str, Any]) -> tuple[int, int]:
        return self._vocabulary, spec["width"]

    def _embedding(self, side: str, name: str, spec: dict[str, Any], shared: str) -> Iterator[tuple[str, Any]]:
        share = self._tree.get("share", True)
        there = "decoder/embeddings/weight" if side == "decoder" else "encoder/embeddings_0/weight"
        if side == "encoder" and share:
            self.aliases[there] = "decoder/embeddings/weight"
        else:
            home = f"{shared}table" if shared and share else f"{name}.table"
            yield there, self._weights.matrix(f"{home}.weight", *self._table_shape(spec))
        yield f"{side}/scale_embeddings", bool(spec.get("scale", True))
        position = table(spec["position"])
        yield f"{side}/position_encodings/encodings", self._position_table(name, position, spec["width"])

    def _position_table(self, name: str, position: dict[str, Any], width: int) -> np.ndarray:
        """CTranslate2 would put all sines before all cosines; ours alternate as in the paper. So it gets a table."""
        if position["kind"] == "learned":
            return self._weights.matrix(f"{name}.position.table.weight", position.get("length", 512), width).float32()
        if position["kind"] == "none":
            return np.zeros((self._positions, width), np.float32)
        columns = np.arange(width)
        rates = np.exp(np.float32(-np.log(10000.0) / width) * (columns // 2 * 2).astype(np.float32))
        angles = np.arange(self._positions, dtype=np.float32)[:, None] * rates
        return np.where(columns % 2 == 0, np.sin(angles), np.cos(angles)).astype(np.float32)

    def _stack(self, side: str, spec: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        width, inner, pre = spec["width"], spec["feed_forward"], spec["norm"] == "pre"
        yield f"{side}/num_heads", np.int16(spec["heads"])
        yield f"{side}/pre_norm", pre
        yield f"{side}/activation", np.int8(ACTIVATIONS[spec["activation"]])
        if pre:
            yield from self._norm(f"{side}/layer_norm", f"{side}.norm", width)
        for number in range(spec["layers"]):
            there, here = f"{side}/layer_{number}", f"{side}.layers.{number}"
            yield from self._linear(f"{there}/self_attention/linear_0", f"{here}.attention.inward", 3 * width, width)
            yield from self._linear(f"{there}/self_attention/linear_1", f"{here}.attention.outward", width, width)
            yield from self._norm(f"{there}/self_attention/layer_norm", f"{here}.around_attention.norm", width)
            yield from self._linear(f"{there}/ffn/linear_0", f"{here}.feed_forward.inward", inner, width)
            yield from self._linear(f"{there}/ffn/linear_1", f"{here}.feed_forward.outward", width, inner)
            yield from self._norm(f"{there}/ffn/layer_norm", f"{here}.around_feed_forward.norm", width)
            if side == "decoder":
                yield from self._cross_attention(there, here, width)

    def _cross_attention(self, there: str, here: str, width: int) -> Iterator[tuple[str, Any]]:
        """CTranslate2 stores the query projection separately from that of keys and values."""
        inward = self._weights.matrix(f"{here}.cross_attention.inward.weight", 3 * width, width)
        bias = self._weights.vector(f"{here}.cross_attention.inward.bias", 3 * width)
        yield f"{there}/attention/linear_0/weight", inward.rows(0, width)
        yield f"{there}/attention/linear_0/bias", bias[:width]
        yield f"{there}/attention/linear_1/weight", inward.rows(width, 3 * width)
        yield f"{there}/attention/linear_1/bias", bias[width:]
        yield from self._linear(f"{there}/attention/linear_2", f"{here}.cross_attention.outward", width, width)
        yield from self._norm(f"{there}/attention/layer_norm", f"{here}.around_cross_attention.norm", width)

    def _linear(self, there: str, here: str, outputs: int, inputs: int) -> Iterator[tuple[str, Any]]:
        yield f"{there}/weight", self._weights.matrix(f"{here}.weight", outputs, inputs)
        yield f"{there}/bias", self._weights.vector(f"{here}.bias", outputs)

    def _norm(self, there: str, here: str, width: int) -> Iterator[tuple[str, Any]]:
        yield f"{there}/gamma", self._weights.vector(f"{here}.weight", width)
        yield f"{there}/beta", self._weights.vector(f"{here}.bias", width)


def _write(out: BufferedIOBase, variables: Mapping[str, Any], aliases: Mapping[str, str], precision: str) -> None:
    arrays: dict[str, np.ndarray] = {}
    for name, value in variables.items():
        if isinstance(value, Matrix):
            arrays[name], scale = _quantised(value, precision)
            if scale is not None:
                arrays[f"{name}_scale"] = scale
        elif isinstance(value, np.ndarray):
            arrays[name] = _rounded(value, precision)
        else:
            arrays[name] = np.asarray(np.int8(value) if isinstance(value, bool) else value)
    source, target = (f"{side}/position_encodings/encodings" for side in ("encoder", "decoder"))
    if np.array_equal(arrays[source], arrays[target]):
        aliases = {**aliases, source: target}
        del arrays[source]
    out.write(struct.pack("<I", _FORMAT) + _text("TransformerSpec") + struct.pack("<II", _REVISION, len(arrays)))
    for name in sorted(arrays):
        array = arrays[name]
        out.write(_text(name) + struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape))
        out.write(struct.pack("B", _TYPES[array.dtype.name]) + struct.pack("<I", array.nbytes))
        out.write(np.ascontiguousarray(array).data if array.ndim else array.tobytes())
    out.write(struct.pack("<I", len(aliases)))
    for alias in sorted(aliases):
        out.write(_text(alias) + _text(aliases[alias]))


def _text(string: str) -> bytes:
    return struct.pack("<H", len(string) + 1) + string.encode() + b"\0"


def _quantised(matrix: Matrix, precision: str) -> tuple[np.ndarray, np.ndarray | None]:
    """A matrix in a precision, with CTranslate2's scale, by which it divides."""
    if precision == "int8":
        if matrix.scale is not None:  # ours has the same steps, so nothing is rounded again
            zero = np.abs(matrix.scale) < _SMALLEST
            values = np.where(zero[:, None], np.int8(0), matrix.values)
            return values, 1 / np.where(zero, np.float32(1), matrix.scale)
        largest = np.abs(matrix.values).max(axis=1)
        scale = (127 / np.where(largest < 127 * _SMALLEST, np.float32(127), largest)).astype(np.float32)
        return np.rint(matrix.values * scale[:, None]).astype(np.int8), scale
    values = matrix.float32()
    if precision == "int16":
        steps = np.float32(2**10 / max(np.abs(values).max(), np.finfo(np.float32).tiny))
        return np.rint(values * steps).astype(np.int16), np.asarray(steps)
    return _rounded(values, precision), None


def _rounded(values: np.ndarray, precision: str) -> np.ndarray:
    if precision == "float16":
        return values.astype(np.float16)
    if precision == "bfloat16":  # to the nearest, ties to even
        bits = np.ascontiguousarray(values).view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return values
