"""Exports a Transformer that translates as ONNX: the encoder, and one step of the decoder with its KV cache.

A step gets the keys and values of all tokens before it and returns them with those of its own: nothing is changed in
place, as ONNX has it. The search is left to whoever runs the files; config.json says what they take and return.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.config import Recipe
from regard.data.tokenizer._base import Tokenizer
from regard.directions import directions
from regard.engines.ctranslate2.limits import table
from regard.errors import UserError
from regard.find_model import find_model, read_recipe_of
from regard.interchange.write._whole_folder import whole_folder
from regard.layers.attend import attention_bias
from regard.loading import read_model
from regard.special_tokens import BEGIN, END, PAD, UNKNOWN
from regard.storage import read_folder

__all__ = ["export"]

PACKAGES = ("onnx", "onnxscript")
ENCODER, DECODER, CONFIG = "encoder.onnx", "decoder.onnx", "config.json"
_IN_ONE_FILE = 1_500_000_000
"""Bytes of weights that fit into the .onnx itself; larger ones lie beside it."""


def export(name: str | Path, folder: str | Path, precision: str = "float32") -> Path:
    """Writes encoder.onnx, decoder.onnx, config.json and the tokenizer's files into a new folder."""
    if precision != "float32":
        raise UserError(f"precision {precision}: ONNX files are written in float32; leave --precision out")
    origin = read_folder(find_model(name))
    if why := why_not(read_recipe_of(origin)):
        raise UserError(f"{name}: {why}")
    if missing := [package for package in PACKAGES if find_spec(package) is None]:
        raise UserError(f"the package {missing[0]} is not installed; run: pip install 'regard[onnx]'")
    recipe, codec, built = read_model(origin)
    model: Any = built.float().eval()
    assert isinstance(codec, Tokenizer)
    ids = torch.full((2, 3), END)
    mask = torch.ones(2, 3, dtype=torch.long)
    layers = len(model.decoder.layers)
    memory = [f"memory_{what}.{layer}" for layer in range(layers) for what in ("key", "value")]
    cache = [f"{what}.{layer}" for layer in range(layers) for what in ("key", "value")]
    past, present = [f"past_{one}" for one in cache], [f"present_{one}" for one in cache]
    encoder, step = _Encoder(model), _Step(model)
    batch, source, target, before = (torch.export.Dim(one) for one in ("batch", "source", "target", "past"))
    read = {0: batch, 1: source}
    with torch.no_grad():
        projected = encoder(ids, mask)
        empty = [torch.zeros(2, 0, *one.shape[2:]) for one in projected]
        _, *written = step(ids, mask, *projected, *empty)  # also computes what positions keep
    with whole_folder(Path(folder)) as place, torch.no_grad():
        _write(encoder, (ids, mask), place / ENCODER, ["input_ids", "attention_mask"], memory, [read, read])
        given = (ids, mask, *(one.clone() for one in projected), *(one.clone() for one in written))
        shapes = [{0: batch, 1: target}, read, (read,) * len(memory) + ({0: batch, 1: before},) * len(past)]
        names = ["input_ids", "attention_mask", *memory, *past]
        _write(step, given, place / DECODER, names, ["logits", *present], shapes)
        config = _config(recipe, codec, model, memory, past, present)
        for file, content in {CONFIG: json.dumps(config, indent=2).encode(), **codec.files()}.items():
            (place / file).write_bytes(content)
    return Path(folder)


def why_not(recipe: Recipe) -> str:
    """Why a model with this recipe cannot be exported; empty if it can."""
    tree = recipe.model
    if recipe.task != "translate" or tree.get("kind") != "seq2seq":
        return f"ONNX files are written of models that translate; this one is made to {recipe.task}"
    for part, kind in (("stem", "tokens"), ("encoder", "transformer"), ("decoder", "transformer")):
        if (own := table(tree.get(part)).get("kind")) != kind:
            return f"ONNX files are written of Transformers; this model's {part} is of the kind {own}"
    if (attention := table(tree["decoder"].get("attention", "multi_head"))["kind"]) != "multi_head":
        return f"ONNX files are written of multi-head attention; this model's is {attention}"
    for part in ("encoder", "decoder"):
        if table(tree[part].get("attention")).get("kv_heads"):
            return f"ONNX files are written of as many keys as queries; model.{part}.attention has kv_heads"
    if (relative := table(tree["decoder"].get("relative_position", "none"))["kind"]) not in ("none", "buckets"):
        return f"ONNX files are not written of relative positions of the kind {relative}"
    return ""


class _Encoder(nn.Module):
    """Source ids and their mask -> the keys and values that each decoder layer attends to."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        memory = self.model.encode(ids, mask.bool()).states
        projected = (layer.cross_attention.project_memory(memory) for layer in self.model.decoder.layers)
        return tuple(one[what] for one in projected for what in ("key", "value"))


class _Step(nn.Module):
    """The decoder's logits for some tokens, given the keys and values of those before, which it returns with theirs."""

    def __init__(self, model: Any):
        super().__init__()
        self.decoder = model.decoder

    def forward(self, ids: Tensor, mask: Tensor, *known: Tensor) -> tuple[Tensor, ...]:
        decoder, half = self.decoder, len(known) // 2
        memory, past = known[:half], known[half:]
        keys = torch.arange(past[0].shape[1] + ids.shape[1], device=ids.device)
        positions = keys[past[0].shape[1] :]
        embedding = decoder.embedding
        x = embedding.norm(embedding.table(ids) * embedding.scale + embedding.position(positions))
        before = (keys <= positions[:, None])[None]
        bias = attention_bias(before, x.dtype, decoder.relative_position(positions, keys))
        of_memory = attention_bias(mask.bool()[:, None], x.dtype)
        present: list[Tensor] = []
        for number, layer in enumerate(decoder.layers):
            own = slice(2 * number, 2 * number + 2)

            def attends(x: Tensor, layer: Any = layer, own: slice = own) -> Tensor:
                attention = layer.attention
                three = attention.inward(x).unflatten(-1, (3, attention.heads, attention.head_width))
                query, *new = three.unbind(2)
                both = [torch.cat([old, added], 1) for old, added in zip(past[own], new)]
                present.extend(both)
                return attention.attend_heads(query, *both, bias)

            def attends_across(x: Tensor, layer: Any = layer, own: slice = own) -> Tensor:
                return layer.cross_attention.attend(x, dict(zip(("key", "value"), memory[own])), of_memory)

            x = layer.around_attention(x, attends)
            x = layer.around_cross_attention(x, attends_across)
            x = layer.around_feed_forward(x, layer.feed_forward)
        return decoder.project(decoder.norm(x)), *present


def _write(
    module: nn.Module, given: Sequence[Tensor], file: Path, inputs: list[str], outputs: list[str], shapes: list[Any]
) -> None:
    size = sum(parameter.numel() * parameter.element_size() for parameter in module.parameters())
    with warnings.catch_warnings(), _quiet(), contextlib.redirect_stdout(io.StringIO()):  # it reports its progress
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            module,
            tuple(given),
            input_names=inputs,
            output_names=outputs,
            dynamic_shapes=tuple(shapes),
            dynamo=True,
            verbose=False,
        )
        assert program is not None
        _forget_origin(program.model)
        program.save(str(file), external_data=size > _IN_ONE_FILE)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's remarks on packages that it does not find."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _forget_origin(model: Any) -> None:
    """The exporter notes for every node which line of which file made it; paths of this machine stay here."""
    for graph in (model.graph, *model.functions.values()):
        graph.metadata_props.clear()
        for value in (*graph.inputs, *graph.outputs):
            value.metadata_props.clear()
        for node in graph:
            node.metadata_props.clear()
            node.doc_string = None
            for value in node.outputs:
                value.metadata_props.clear()
    for value in model.graph.initializers.values():
        value.metadata_props.clear()


def _config(
    recipe: Recipe, tokenizer: Tokenizer, model: Any, memory: list[str], past: list[str], present: list[str]
) -> dict[str, Any]:
    """What whoever runs the files needs to know."""
    attention = model.decoder.layers[0].attention
    return {
        "format": "regard-onnx",
        "version": 1,
        "encoder": {"file": ENCODER, "inputs": ["input_ids", "attention_mask"], "outputs": memory},
        "decoder": {
            "file": DECODER,
            "inputs": ["input_ids", "attention_mask", *memory, *past],
            "outputs": ["logits", *present],
        },
        "cache_shape": ["batch", "past", attention.heads, attention.head_width],
        "first_cache": "past is 0 at the first step",
        "special_tokens": {"pad": PAD, "unknown": UNKNOWN, "begin": BEGIN, "end": END},
        "never_written": [PAD, UNKNOWN, BEGIN],
        "source_ends_with": [END] if recipe.data.source_end else [],
        "target_begins_with": [BEGIN],
        "vocabulary": {"source": len(tokenizer), "target": len(tokenizer.target)},
        "tokenizer": tokenizer.kind,
        "directions": [list(pair) for pair in directions(recipe)[:1000]],
        "languages": dataclasses.asdict(recipe.languages),
        "max_source_length": recipe.data.max_length,
    }
