"""Converts a model folder into CTranslate2's format, with NumPy alone.

CTranslate2's own converters import torch, so its binary format is written here: a list of named arrays. The tests
compare the file with the one that its library writes. What it cannot run, `why_not` says in a few words.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from io import BufferedIOBase
from typing import Any

import numpy as np

from regard.config import Recipe
from regard.engines.ctranslate2.limits import ACTIVATIONS, norm_epsilons, positions_needed, table, why_not
from regard.engines.ctranslate2.stored_weights import Matrix, StoredWeights
from regard.errors import UserError
from regard.special_tokens import BEGIN, END, UNKNOWN

PRECISIONS = ("float32", "bfloat16", "float16", "int16", "int8")

_FORMAT, _REVISION = 6, 7
_TYPES = {"float32": 0, "int8": 1, "int16": 2, "int32": 3, "float16": 4, "uint16": 5}
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
    source_pieces: Sequence[str] | None = None,
) -> dict[str, bytes]:
    """Writes model.bin to `out`; returns the other files of the folder by name.

    Token i is spelled `pieces[i]`, and in a source `source_pieces[i]` if that has a vocabulary of its own. The model
    returns the attention of a decoder `layer`, by default the last.
    """
    if why := why_not(recipe):
        raise UserError(why)
    if precision not in PRECISIONS:
        raise UserError(f"precision '{precision}' is not known to CTranslate2; use {', '.join(PRECISIONS)}")
    for side in (pieces, source_pieces or ()):
        if len(set(side)) < len(side):
            raise UserError("two tokens of this model are spelled alike, so CTranslate2 cannot tell them apart")
    if source_pieces is not None and recipe.model.get("share", True):
        raise UserError("model.share: source and target have vocabularies of their own; take another copy of the model")
    sizes = len(pieces if source_pieces is None else source_pieces), len(pieces)
    model = _Model(recipe, weights, sizes, recipe.model["decoder"]["layers"] - 1 if layer is None else layer)
    variables = dict(model.variables())
    if (extra := weights.leftover()) is not None:
        raise UserError(f"weight {extra[:80]!r} is not part of this model")
    _write(out, variables, model.aliases, precision)
    config = {
        "add_source_bos": False,
        "add_source_eos": recipe.data.source_end and recipe.languages.source_tag != "after",  # then it has END itself
        "bos_token": pieces[BEGIN],
        "decoder_start_token": pieces[BEGIN],
        "eos_token": pieces[END],
        "layer_norm_epsilon": None if (epsilon := norm_epsilons(recipe).pop()) == 1e-5 and not model.rms else epsilon,
        "multi_query_attention": False,
        "unk_token": pieces[UNKNOWN],
    }
    spelled = {"shared": pieces} if source_pieces is None else {"source": source_pieces, "target": pieces}
    return {
        "config.json": json.dumps(config, indent=2, sort_keys=True).encode(),
        **{f"{side}_vocabulary.json": json.dumps(list(tokens), indent=2).encode() for side, tokens in spelled.items()},
    }


class _Model:
    """The variables of a model under CTranslate2's names; `aliases` are names of variables that are stored once."""

    def __init__(self, recipe: Recipe, weights: StoredWeights, vocabulary: tuple[int, int], layer: int):
        """`vocabulary`: the tokens of the source and of the target."""
        self._tree, self._weights = recipe.model, weights
        self._vocabulary = dict(zip(("encoder", "decoder"), vocabulary))
        self._positions = positions_needed(recipe)
        self._layer = layer
        self.aliases: dict[str, str] = {}
        self.rms = any(self._tree[side].get("norm_kind") == "rms" for side in ("encoder", "decoder"))

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
                self._weights.matrix("decoder.output.weight", *self._table_shape("decoder", decoder)),
            )
        if decoder.get("output_bias"):
            yield "decoder/projection/bias", self._weights.vector("decoder.output_bias", self._vocabulary["decoder"])
        yield from self._embedding("encoder", "stem.embedding", stem, "")
        yield from self._stack("encoder", encoder)
        yield "encoder/embeddings_merge", False
        yield "encoder/multi_query_attention", False
        for side, here, spec in (("encoder", "stem", stem), ("decoder", "decoder", decoder)):
            if spec.get("embedding_norm"):
                yield from self._norm(f"{side}/layernorm_embedding", f"{here}.embedding.norm", spec["width"], "layer")

    def _table_shape(self, side: str, spec: dict[str, Any]) -> tuple[int, int]:
        return self._vocabulary[side], spec["width"]

    def _embedding(self, side: str, name: str, spec: dict[str, Any], shared: str) -> Iterator[tuple[str, Any]]:
        share = self._tree.get("share", True)
        there = "decoder/embeddings/weight" if side == "decoder" else "encoder/embeddings_0/weight"
        if side == "encoder" and share:
            self.aliases[there] = "decoder/embeddings/weight"
        else:
            home = f"{shared}table" if shared and share else f"{name}.table"
            yield there, self._weights.matrix(f"{home}.weight", *self._table_shape(side, spec))
        yield f"{side}/scale_embeddings", bool(spec.get("scale", True))
        position = table(spec["position"])
        if _relative(self._tree[side]):  # then it has no other positions
            return
        yield f"{side}/position_encodings/encodings", self._position_table(name, position, spec["width"])

    def _position_table(self, name: str, position: dict[str, Any], width: int) -> np.ndarray:
        """CTranslate2 would put all sines before all cosines; ours alternate as in the paper. So it gets a table."""
        if position["kind"] == "learned":
            return self._weights.matrix(f"{name}.position.table.weight", position.get("length", 512), width).float32()
        if position["kind"] == "none":
            return np.zeros((self._positions, width), np.float32)
        if position["kind"] == "sinusoidal_halves":
            return _halves(self._positions, width, position.get("offset", 0), position.get("inclusive", False))
        columns = np.arange(width)
        rates = np.exp(np.float32(-np.log(10000.0) / width) * (columns // 2 * 2).astype(np.float32))
        angles = np.arange(self._positions, dtype=np.float32)[:, None] * rates
        return np.where(columns % 2 == 0, np.sin(angles), np.cos(angles)).astype(np.float32)

    def _stack(self, side: str, spec: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        width, inner, pre = spec["width"], spec["feed_forward"], spec["norm"] == "pre"
        norm, bias = spec.get("norm_kind", "layer"), spec.get("bias", True)
        across = spec["heads"] * (spec.get("head_width") or width // spec["heads"])
        yield f"{side}/num_heads", np.int16(spec["heads"])
        yield f"{side}/pre_norm", pre
        yield f"{side}/activation", np.int8(ACTIVATIONS[spec["activation"]])
        if pre:
            yield from self._norm(f"{side}/layer_norm", f"{side}.norm", width, norm)
        for number in range(spec["layers"]):
            there, here = f"{side}/layer_{number}", f"{side}.layers.{number}"
            attention = f"{there}/self_attention"
            yield from self._linear(f"{attention}/linear_0", f"{here}.attention.inward", 3 * across, width, bias)
            yield from self._linear(f"{attention}/linear_1", f"{here}.attention.outward", width, across, bias)
            yield from self._norm(f"{attention}/layer_norm", f"{here}.around_attention.norm", width, norm)
            yield from self._queries_scale(attention, spec)
            yield from self._relative_positions(side, number, spec)
            inward, gate = f"{here}.feed_forward.inward", f"{here}.feed_forward.gate"
            gated = spec.get("gated", False)
            yield from self._linear(f"{there}/ffn/linear_0", gate if gated else inward, inner, width, bias)
            if gated:
                yield from self._linear(f"{there}/ffn/linear_0_noact", inward, inner, width, bias)
            yield from self._linear(f"{there}/ffn/linear_1", f"{here}.feed_forward.outward", width, inner, bias)
            yield from self._norm(f"{there}/ffn/layer_norm", f"{here}.around_feed_forward.norm", width, norm)
            if side == "decoder":
                yield from self._cross_attention(there, here, width, across, spec)

    def _cross_attention(
        self, there: str, here: str, width: int, across: int, spec: dict[str, Any]
    ) -> Iterator[tuple[str, Any]]:
        """CTranslate2 stores the query projection separately from that of keys and values."""
        name, attention, biased = f"{here}.cross_attention", f"{there}/attention", spec.get("bias", True)
        inward = self._weights.matrix(f"{name}.inward.weight", 3 * across, width)
        yield f"{attention}/linear_0/weight", inward.rows(0, across)
        yield f"{attention}/linear_1/weight", inward.rows(across, 3 * across)
        if biased:
            bias = self._weights.vector(f"{name}.inward.bias", 3 * across)
            yield f"{attention}/linear_0/bias", bias[:across]
            yield f"{attention}/linear_1/bias", bias[across:]
        yield from self._linear(f"{attention}/linear_2", f"{name}.outward", width, across, biased)
        norm = spec.get("norm_kind", "layer")
        yield from self._norm(f"{attention}/layer_norm", f"{here}.around_cross_attention.norm", width, norm)
        yield from self._queries_scale(attention, spec)

    def _queries_scale(self, there: str, spec: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        """CTranslate2 would divide by the root of width / heads."""
        if width := spec.get("head_width"):
            yield f"{there}/queries_scale", np.float32(1 / math.sqrt(width))

    def _relative_positions(self, side: str, number: int, spec: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        """The first layer's table serves all."""
        relative = _relative(spec)
        if not relative:
            return
        there, first = (f"{side}/layer_{layer}/self_attention/relative_attention_" for layer in (number, 0))
        if number:
            self.aliases[f"{there}bias"] = f"{first}bias"
        else:
            name, buckets = f"{side}.relative_position.table.weight", relative.get("buckets", 32)
            yield f"{there}bias", self._weights.matrix(name, buckets, spec["heads"]).float32()
        yield f"{there}max_distance", np.int32(relative.get("distance", 128))

    def _linear(self, there: str, here: str, outputs: int, inputs: int, bias: bool) -> Iterator[tuple[str, Any]]:
        yield f"{there}/weight", self._weights.matrix(f"{here}.weight", outputs, inputs)
        if bias:
            yield f"{there}/bias", self._weights.vector(f"{here}.bias", outputs)

    def _norm(self, there: str, here: str, width: int, kind: str) -> Iterator[tuple[str, Any]]:
        yield f"{there}/gamma", self._weights.vector(f"{here}.weight", width)
        if kind == "layer":
            yield f"{there}/beta", self._weights.vector(f"{here}.bias", width)


def _relative(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The relative positions of a stack; empty if it has none."""
    found = table(spec.get("relative_position", "none"))
    return {} if found["kind"] == "none" else found


def _halves(rows: int, width: int, offset: int, inclusive: bool) -> np.ndarray:
    """Positions with the sines in the first half and the cosines in the second."""
    half = width // 2
    steps = max(1, half - 1) if inclusive else half
    rates = np.exp(np.arange(half, dtype=np.float32) * np.float32(-math.log(10000.0) / steps))
    angles = np.arange(offset, offset + rows, dtype=np.float32)[:, None] * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)


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
    if source in arrays and target in arrays and np.array_equal(arrays[source], arrays[target]):
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
        largest = np.finfo(np.float16).max  # the bias of a token that is never written is beyond it
        return np.clip(values, -largest, largest).astype(np.float16)
    if precision == "bfloat16":  # to the nearest, ties to even
        bits = np.ascontiguousarray(values).view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return values
