"""The map of a model: its blocks in the order in which data flows through them, from the `model` section of its recipe.

Plain data, made without building the model: widths, layers and heads come from the recipe; vocabulary and numbers of
parameters from the names and shapes of the weights (those of a built model, or the header of a weight file).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.inspection.trace.base import CROSS, SOURCE, TARGET
from regard.safetensors_header import read_header

Shapes = Mapping[str, Sequence[int]]
"""The shape of each parameter by its name in the model."""

GATES = {"lstm": "input, forget and output gate", "gru": "reset and update gate", "rnn": "no gates"}
ATTENTIONS = {"additive": "Bahdanau", "dot": "Luong", "multiplicative": "Luong", "local": "Luong"}
STEMS = {
    "patches": ("patches", "Patches", "{patch} x {patch} pixels each, projected"),
    "grid": ("convolution", "Convolutions", "{stages} stages, each halves the image"),
    "frames": ("convolution", "Spectrogram and convolutions", "{mels} bands, {subsample} frames per vector"),
    "log_mel": ("convolution", "Spectrogram and convolutions", "{mels} bands, a window of {seconds} seconds"),
    "clips": ("convolution", "Convolutions of each frame", "{filters} filters, then twice as many"),
    "features": ("embedding", "Projection", "{patch} time steps per vector"),
}


@dataclass
class Block:
    """One block, or a layer of several."""

    path: str
    """The module in the model, or a name of its own for what has no module (softmax, search)."""
    kind: str
    """attention, feed_forward, norm, cell, ...: what it does, whatever model it is in."""
    title: str
    side: str
    """SOURCE or TARGET: whose tokens it works on."""
    width: int = 0
    """How many numbers leave it for each token; 0: as many as entered."""
    detail: str = ""
    layer: int | None = None
    attention: str = ""
    """cross, source or target, of an attention: as in `Choice`."""
    heads: int = 0
    backwards: bool = False
    parameters: int = 0
    """How many weights are its own, with those of the blocks inside."""
    blocks: list[Block] = field(default_factory=list)
    weights: tuple[str, ...] = ()
    """Where the names of its parameters begin, if not with its path."""

    def walk(self) -> Iterator[Block]:
        """This block and all those inside it."""
        yield self
        for block in self.blocks:
            yield from block.walk()


@dataclass
class ModelMap:
    """The blocks of a model: of the source (stem and encoder) and of the target (decoder), each from top to bottom."""

    kind: str
    source: list[Block] = field(default_factory=list)
    target: list[Block] = field(default_factory=list)
    memory: int = 0
    """The width of the memory that the decoder attends to or starts from; 0: there is none."""
    parameters: int = 0

    def walk(self) -> Iterator[Block]:
        for block in [*self.source, *self.target]:
            yield from block.walk()


def map_of_folder(folder: Path, model: Mapping[str, Any], task: str) -> ModelMap:
    """The map of a saved model, read without its weights."""
    header = read_header(folder / "weights.safetensors")
    scales = {f"{name}.scale" for name in header.notes.get("scaled", ())}
    return model_map(model, {name: one.shape for name, one in header.tensors.items() if name not in scales}, task)


def model_map(model: Mapping[str, Any], shapes: Shapes, task: str) -> ModelMap:
    """The map of a model.

    Args:
        model: The resolved `model` section of its recipe.
        shapes: The shape of each of its parameters; those that are shared occur once.
        task: What it is used for: only a task that searches ends with a beam search.
    """
    stem, encoder, decoder = (_part(model.get(part)) for part in ("stem", "encoder", "decoder"))
    found = ModelMap(str(model.get("kind", "seq2seq")))
    width = 0
    if stem:
        width = int(stem.get("width", 0))
        found.source += _stem(stem, shapes)
    if encoder and encoder["kind"] != "none":
        width = int(encoder.get("width", width))
        found.source += _stack(encoder, "encoder", SOURCE, False)
    if decoder:
        found.memory = width if stem else 0
        found.target += _decoder(decoder, shapes, bool(stem), bool(model.get("share")))
        if task in ("translate", "caption", "transcribe"):
            found.target.append(Block("search", "search", "Beam search", TARGET, detail="the best tokens go on"))
    elif stem:
        found.source += _head(found.kind, model, shapes, width)
    _count(found, shapes)
    return found


def _part(spec: Any) -> dict[str, Any]:
    return {"kind": spec} if isinstance(spec, str) else dict(spec) if isinstance(spec, Mapping) else {}


def _named(spec: Any, none: str = "none") -> str:
    """The kind of a part that is written as a name or a table."""
    return str(_part(spec).get("kind", none))


def _rows(shapes: Shapes, *names: str) -> int:
    """The rows of the first of these weights that is there: a vocabulary, labels."""
    return next((int(shapes[name][0]) for name in names if name in shapes), 0)


def _stem(stem: Mapping[str, Any], shapes: Shapes) -> list[Block]:
    kind, width = str(stem["kind"]), int(stem.get("width", 0))
    if kind == "tokens":
        words = _rows(shapes, "stem.embedding.table.weight", "decoder.embedding.table.weight")
        return _embedded("stem.embedding", SOURCE, width, words, stem.get("position"))
    own, title, detail = STEMS.get(kind, ("stem", kind.replace("_", " ").capitalize(), ""))
    detail = detail.format_map({"patch": 1, "stages": 3, "mels": 40, "subsample": 4, "filters": 16, **stem})
    if stem.get("class_token"):
        detail += ", a class and a distillation token" if stem.get("distillation_token") else ", and a class token"
    blocks = [Block("stem", own, title, SOURCE, width, detail)]
    return blocks + _positions("stem.placing", SOURCE, width, stem.get("position"))


def _embedded(path: str, side: str, width: int, words: int, position: Any, shared: bool = False) -> list[Block]:
    detail = f"{words:,} tokens" + (", shared with the source" if shared else "")
    return [Block(path, "embedding", "Embedding", side, width, detail), *_positions(path, side, width, position)]


def _positions(home: str, side: str, width: int, position: Any) -> list[Block]:
    kind = _named(position)
    if kind == "none":
        return []
    return [Block(f"{home}.position", "positions", "Positions", side, width, f"{kind}, added")]


def _decoder(decoder: dict[str, Any], shapes: Shapes, memory: bool, share: bool) -> list[Block]:
    kind, width = str(decoder["kind"]), int(decoder.get("width", 0))
    recurrent = kind in ("recurrent", "attentional", "independent_keys")
    embedded = int(decoder.get("embedding") or width)
    table = "decoder.embedding.table.weight"
    shared = share and table not in shapes
    words = _rows(shapes, "stem.embedding.table.weight" if shared else table)
    position = None if recurrent or kind == "universal" else decoder.get("position")
    blocks = _embedded("decoder.embedding", TARGET, embedded, words, position, shared)
    if recurrent and memory:
        how = "copies the last state" if decoder.get("bridge") == "copy" else "its first state, from the memory"
        blocks.append(Block("decoder.bridge", "bridge", "Bridge", TARGET, width, how))
    blocks += _stack(decoder, "decoder", TARGET, memory)
    before = decoder.get("order") == "before"
    out = embedded if kind == "attentional" and before else width
    if kind == "attentional":
        detail = "maxout of state, context and last token" if before else "tanh of context and state"
        blocks.append(Block("decoder.readout", "readout", "Readout", TARGET, out, detail))
    tied = bool(decoder.get("tie", True))
    detail = "the embedding, transposed" if tied else f"{out} numbers to {words:,} logits"
    output = "decoder.output"
    if kind == "independent_keys":
        output, detail = "decoder.keys", "the probability of each key, and of the end"
    blocks.append(Block(output, "output", "Output layer", TARGET, words, detail))
    return [*blocks, Block("softmax", "softmax", "Softmax", TARGET, words, "a probability for each token")]


def _stack(part: dict[str, Any], home: str, side: str, memory: bool) -> list[Block]:
    """The layers of an encoder or decoder."""
    kind = part["kind"]
    makers = {"transformer": _transformer, "ssru": _transformer, "universal": _universal}
    makers |= dict.fromkeys(("recurrent", "attentional", "independent_keys"), _recurrent)
    if kind not in makers:  # another package's
        return [Block(home, "stack", str(kind).replace("_", " ").capitalize(), side, int(part.get("width", 0)))]
    return makers[kind](part, home, side, memory)


def _transformer(part: dict[str, Any], home: str, side: str, memory: bool) -> list[Block]:
    blocks = []
    if (relative := _named(part.get("relative_position"))) != "none":
        does = "queries and keys turn with their position" if relative == "rotary" else "added to the scores"
        detail = f"{relative}: {does}"
        blocks.append(Block(f"{home}.relative_position", "relative", "Relative positions", side, 0, detail))
    for layer in range(int(part.get("layers", 6))):
        path = f"{home}.layers.{layer}"
        inside = _sublayers(part, path, side, memory, layer)
        blocks.append(Block(path, "layer", f"Layer {layer}", side, int(part["width"]), "", layer, blocks=inside))
    return [*blocks, *_last_norm(part, home, side)]


def _universal(part: dict[str, Any], home: str, side: str, memory: bool) -> list[Block]:
    width, steps = int(part["width"]), int(part.get("layers", 6))
    inside = _positions(home, side, width, part.get("position", "sinusoidal"))
    for block in inside:
        block.detail += ", with the step, at every step"
    inside += _sublayers(part, f"{home}.layer", side, memory, 0)
    if part.get("halting", True):
        detail = "adaptive computation time: goes on or stops, for each token"
        inside.append(Block(f"{home}.halting", "halting", "Halting", side, 0, detail))
    title = f"One layer, up to {steps} times" if part.get("halting", True) else f"One layer, {steps} times"
    layer = Block(f"{home}.layer", "layer", title, side, width, "", 0, blocks=inside)
    return [layer, *_last_norm(part, home, side)]


def _last_norm(part: Mapping[str, Any], home: str, side: str) -> list[Block]:
    if part.get("norm") != "pre":
        return []
    return [Block(f"{home}.norm", "norm", "Norm", side, int(part["width"]), "after the last layer")]


def _sublayers(part: dict[str, Any], path: str, side: str, memory: bool, layer: int) -> list[Block]:
    """Attention, feed-forward, and Add & Norm around each."""
    width = int(part["width"])
    pre = part.get("norm") == "pre"

    def around(name: str) -> Block:
        where = f"{path}.around_{name}"
        return Block(where, "norm", "Add & Norm", side, width, "normalised first, then added" if pre else "")

    if part["kind"] == "ssru":
        inside = [Block(f"{path}.recurrence", "ssru", "SSRU", side, width, "forget gate and state", layer)]
        inside.append(around("recurrence"))
    else:
        title = "Self-attention" if side == SOURCE else "Masked self-attention"
        inside = [_attention(part, f"{path}.attention", title, side, layer, side), around("attention")]
    if memory:
        cross = _attention(part, f"{path}.cross_attention", "Cross-attention", side, layer, CROSS)
        inside += [cross, around("cross_attention")]
    inner = int(part.get("feed_forward", 0))
    gated = ", gated" if part.get("gated") else ""
    detail = f"{width} → {inner} → {width}, {part.get('activation', 'relu')}{gated}"
    inside.append(Block(f"{path}.feed_forward", "feed_forward", "Feed-forward", side, width, detail, layer))
    return [*inside, around("feed_forward")]


def _attention(part: Mapping[str, Any], path: str, title: str, side: str, layer: int, attends: str) -> Block:
    kind = _named(part.get("attention"), "multi_head")
    width = int(part["width"])
    heads = int(part.get("heads", 8)) if kind == "multi_head" else 1
    each = int(part.get("head_width") or width // heads)
    many = "head" if heads == 1 else "heads"
    detail = f"{heads} {many} of {each}" if kind == "multi_head" else kind.replace("_", "-")
    if (shared := int(_part(part.get("attention")).get("kv_heads") or heads)) != heads:
        detail += f", {shared} of keys and values"
    return Block(path, "attention", title, side, width, detail, layer, attends, heads)


def _recurrent(part: dict[str, Any], home: str, side: str, memory: bool) -> list[Block]:
    """Cells, a layer after the other; an attentional decoder attends before the first or after the last."""
    width, cell = int(part["width"]), str(part.get("cell", "lstm"))
    directions = {"both": (False, True), "backward": (True,)}.get(str(part.get("direction", "forward")), (False,))
    blocks = []
    for layer in range(int(part.get("layers", 1))):
        inside = []
        for number, backwards in enumerate(directions):
            path = f"{home}.recurrence.cells.{layer * len(directions) + number}"
            title = cell.upper() + (", backwards" if backwards else ", forwards" if len(directions) > 1 else "")
            inside.append(
                Block(
                    *(path, "cell", title, side, width // len(directions), GATES.get(cell, "")),
                    layer=layer,
                    backwards=backwards,
                )
            )
        if len(inside) == 1:
            inside[0].title = f"{inside[0].title}, layer {layer}"
            blocks += inside
        else:
            blocks.append(
                Block(f"{home}.recurrence.{layer}", "layer", f"Layer {layer}", side, width, "", layer, blocks=inside)
            )
    if part["kind"] != "attentional":
        return blocks
    kind = _named(part.get("attention"), "additive")
    detail = f"{kind.replace('_', '-')}{f' ({ATTENTIONS[kind]})' if kind in ATTENTIONS else ''}"
    attention = Block(f"{home}.cross_attention", "attention", "Attention", side, 0, detail, 0, CROSS, 1)
    return [attention, *blocks] if part.get("order", "before") == "before" else [*blocks, attention]


def _head(kind: str, model: Mapping[str, Any], shapes: Shapes, width: int) -> list[Block]:
    """What follows the encoder of a model without a decoder. All parameters of no other block are its own."""
    blocks = []
    if kind == "classifier":
        pooling = str(model.get("pooling", "mean"))
        detail = {
            "first": "the first vector: the class token",
            "first_two": "the first two vectors: the class and the distillation token",
            "last": "the last vector",
        }.get(pooling, pooling)
        width *= 2 if pooling == "first_two" else 1
        blocks.append(Block("pooling", "pooling", "Pooling", SOURCE, width, detail))
    rows = _rows(shapes, "head.weight", "bias")
    detail = f"{rows:,} numbers for each token" if kind != "classifier" else f"{width} numbers to {rows:,} labels"
    blocks.append(Block("head", "output", "Output layer", SOURCE, rows, detail, weights=("",)))
    if kind == "crf_tagger":
        return [
            *blocks,
            Block("chain", "softmax", "Conditional random field", SOURCE, rows, "the best sequence of labels"),
        ]
    if kind in ("forecaster", "tracker"):
        return blocks
    return [*blocks, Block("softmax", "softmax", "Softmax", SOURCE, rows, "probabilities")]


def _count(found: ModelMap, shapes: Shapes) -> None:
    """Counts each parameter at the block whose name begins the parameter's most closely."""
    leaves = [block for block in found.walk() if not block.blocks]
    homes = {prefix: block for block in leaves for prefix in block.weights or (block.path,)}
    for name, shape in shapes.items():
        inside = [prefix for prefix in homes if not prefix or name == prefix or name.startswith(f"{prefix}.")]
        if inside:
            homes[max(inside, key=len)].parameters += math.prod(shape)
    found.parameters = sum(map(math.prod, shapes.values()))

    def total(block: Block) -> int:
        block.parameters += sum(map(total, block.blocks))
        return block.parameters

    for block in [*found.source, *found.target]:
        total(block)
