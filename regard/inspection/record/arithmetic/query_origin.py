"""Where the vector comes from that looks: an embedding and its position, or what the part below gave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.decoder.attentional import AttentionalDecoder
from regard.decoder.universal import UniversalDecoder
from regard.encoder.universal import UniversalEncoder
from regard.inspection.record.arithmetic.interception import Call, Heard, plain
from regard.inspection.record.arithmetic.stages import layer_norm, row
from regard.inspection.trace.arithmetic import Stage
from regard.layers.embedding import TokenEmbedding
from regard.layers.position.none import NoPosition
from regard.layers.residual import Residual

CLOSE = 1e-5


@dataclass
class Coming:
    """The stages up to the vector that an attention is given, and what formulas call it."""

    stages: list[Stage]
    before: Tensor
    """What goes past the attention and is added to what it gives."""
    symbol: str = "x"
    of_keys: str = "xⱼ"
    keys_are: str = "made of all tokens' vectors alike"


def coming(modules: dict[str, nn.Module], heard: Heard, path: str, call: Call, place: int, time: int) -> Coming:
    """Of one call of the attention at `path`."""
    home, _, name = path.rpartition(".")
    if isinstance(decoder := modules.get(home), AttentionalDecoder):
        when = "before it writes" if decoder.before else "after it has read the word before"
        said = f"The decoder's state {when}: with it, it looks at the source."
        stage = Stage("state", "s", said, [row("s", call.query[place])])
        return Coming([stage], call.query[place], "s", "hⱼ", "made of the states of the source")
    cross = name == "cross_attention"
    found = heard.of(f"{home}.around_{name}")
    if not found:
        stage = Stage("input", "x", "What it is given.", [row("x", call.query[place])])
        return Coming([stage], call.query[place])
    residual = modules[f"{home}.around_{name}"]
    assert isinstance(residual, Residual)
    before = plain(found[time][0][0])[0, place]
    stages = [_looked_back(before)] if cross else _stages(modules, heard, home, before, place, time)
    symbol = "x"
    if residual.first:
        normed = layer_norm(before, residual.norm)
        said = "Its numbers are brought to an even size before anything is done with them."
        stages.append(Stage("layer norm", "x̂ = (x - mean) / √(variance + ε) · γ + β", said, [row("x̂", normed)]))
        symbol = "x̂"
    if cross:
        return Coming(stages, before, symbol, "hⱼ", "made of what the encoder gave for the tokens of the source")
    return Coming(stages, before, symbol, f"{symbol}ⱼ", "made of all tokens' vectors in the same way")


def _stages(
    modules: dict[str, nn.Module], heard: Heard, home: str, before: Tensor, place: int, time: int
) -> list[Stage]:
    """An embedding where that is where it comes from: only if its numbers are those that were given."""
    above = modules[home.rpartition(".")[0]]
    embeddings = [(modules[path], path) for path in heard.around if isinstance(modules.get(path), TokenEmbedding)]
    clocked = isinstance(above, (UniversalEncoder, UniversalDecoder))
    added = torch.zeros_like(before)
    if clocked:  # a Universal Transformer adds position and step each time
        where, step = _one(above.position, place), _one(above.clock, time + 1)  # type: ignore[operator,arg-type]
        added = where + step
    for embedding, path in embeddings if time == 0 else []:
        given, output = heard.of(path)[-1]
        if _same(plain(output), before - added, place):
            stages = _embedded(embedding, int(given[0][0, place]), place)
            return [*stages, _clock(plain(output)[0, place], where, step, before)] if clocked else stages
    if clocked:
        # Who has halted stays as it was, so it may be an earlier step that gave what is there now.
        for earlier in reversed(range(time)):
            output = plain(heard.of(home)[earlier][1])
            if _same(output, before - added, place):
                return [_clock(output[0, place], where, step, before, earlier)]
    return [_below(home, before)]


def _looked_back(before: Tensor) -> Stage:
    said = "What the token that was read last had become when it had looked at those before it."
    return Stage("input", "x", said, [row("x", before)])


def _embedded(embedding: Any, token: int, place: int) -> list[Stage]:
    table = plain(embedding.table.weight[token])
    vector = table * embedding.scale
    width = len(table)
    scaled = embedding.scale != 1.0
    said = f"Row {token} of the table is this token's vector: {width} learnt numbers"
    said += f", made larger by √{width}." if scaled else "."
    rows = [row("E[id]", table), row("e", vector)] if scaled else [row("e", vector)]
    stages = [Stage("embedding", f"e = E[{token}]" + (f" · √{width}" if scaled else ""), said, rows)]
    if not isinstance(embedding.position, NoPosition):
        where = _one(embedding.position, place)
        said = f"Added is a vector that says that it stands at place {place}."
        stages.append(Stage("position", f"x = e + p({place})", said, [row("p", where), row("x", vector + where)]))
        vector = vector + where
    if isinstance(embedding.norm, nn.LayerNorm):
        normed = layer_norm(vector, embedding.norm)
        said = "The sum is brought to an even size."
        stages.append(Stage("layer norm", "x = (x - mean) / √(variance + ε) · γ + β", said, [row("x", normed)]))
    return stages


def _clock(prior: Tensor, where: Tensor, step: Tensor, before: Tensor, earlier: int | None = None) -> Stage:
    came = "Its vector" if earlier is None else f"What step {earlier} gave"
    said = f"{came}, and two vectors that say where it stands and which step of thinking this is."
    rows = [row("h", prior), row("p", where), row("t", step), row("x", before)]
    return Stage("position and step", "x = h + p + t", said, rows)


def _below(home: str, before: Tensor) -> Stage:
    number = home.rpartition(".")[2]
    if number.isdecimal() and int(number) > 0:
        said = f"What layer {int(number) - 1}, the one below, gave for this token."
    elif home.startswith("encoder") and number == "0":
        said = "What the stem made of this part of the input."
    else:
        said = "What this token had become so far."
    return Stage("input", "x", said, [row("x", before)])


def _same(output: Tensor, wanted: Tensor, place: int) -> bool:
    return output.ndim == 3 and place < output.shape[1] and torch.allclose(output[0, place], wanted, CLOSE, CLOSE)


def _one(position: nn.Module, place: int) -> Tensor:
    device = next((p.device for p in position.parameters()), torch.device("cpu"))
    return plain(position(torch.tensor([place], device=device)))[0]
