"""Where a query comes from: a token embedding plus position, or the output of the layer below."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.decoder.attentional import AttentionalDecoder
from regard.decoder.universal import UniversalDecoder
from regard.encoder.universal import UniversalEncoder
from regard.inspection.record.arithmetic.interception import Call, Intercepted, plain
from regard.inspection.record.arithmetic.stages import normalized, row
from regard.inspection.trace.arithmetic import Stage
from regard.layers.embedding import TokenEmbedding
from regard.layers.position.none import NoPosition
from regard.layers.residual import Residual

CLOSE = 1e-5


@dataclass
class QueryOrigin:
    """The stages up to the input of an attention, and its symbols in formulas."""

    stages: list[Stage]
    before: Tensor
    """The input of the residual connection, which is added to the attention's output."""
    symbol: str = "x"
    of_keys: str = "xⱼ"
    keys_are: str = "computed from the vectors of all tokens"


def query_origin(
    modules: dict[str, nn.Module], intercepted: Intercepted, path: str, call: Call, place: int, time: int
) -> QueryOrigin:
    """Of one call of the attention at `path`."""
    home, _, name = path.rpartition(".")
    if isinstance(decoder := modules.get(home), AttentionalDecoder):
        when = "before the next token" if decoder.before else "after reading the previous token"
        said = f"The decoder's state {when}: the query of the attention over the source."
        stage = Stage("state", "s", said, [row("s", call.query[place])])
        return QueryOrigin([stage], call.query[place], "s", "hⱼ", "computed from the encoder's states")
    cross = name == "cross_attention"
    found = intercepted.of(f"{home}.around_{name}")
    if not found:
        stage = Stage("input", "x", "The input of the attention.", [row("x", call.query[place])])
        return QueryOrigin([stage], call.query[place])
    residual = modules[f"{home}.around_{name}"]
    assert isinstance(residual, Residual)
    before = plain(found[time][0][0])[0, place]
    past = "recurrence" if f"{home}.recurrence" in modules else "self-attention"
    stages = [_decoder_input(before, past)] if cross else _stages(modules, intercepted, home, before, place, time)
    symbol = "x"
    if residual.first:
        said = "The vector is normalized before the attention (pre-norm)."
        stages.append(normalized(before, residual.norm, "x̂", "x", said)[0])
        symbol = "x̂"
    if cross:
        return QueryOrigin(stages, before, symbol, "hⱼ", "computed from the encoder's output for the source tokens")
    return QueryOrigin(stages, before, symbol, f"{symbol}ⱼ", "computed from the vectors of all tokens in the same way")


def _stages(
    modules: dict[str, nn.Module], intercepted: Intercepted, home: str, before: Tensor, place: int, time: int
) -> list[Stage]:
    """The stages of the token embedding, if the input equals it; else the layer below."""
    above = modules[home.rpartition(".")[0]]
    embeddings = [(modules[path], path) for path in intercepted.around if isinstance(modules.get(path), TokenEmbedding)]
    clocked = isinstance(above, (UniversalEncoder, UniversalDecoder))
    added = torch.zeros_like(before)
    if clocked:  # a Universal Transformer adds position and step each time
        where, step = _one(above.position, place), _one(above.clock, time + 1)  # type: ignore[operator,arg-type]
        added = where + step
    for embedding, path in embeddings if time == 0 else []:
        given, output = intercepted.of(path)[-1]
        if _same(plain(output), before - added, place):
            stages = _embedded(embedding, int(given[0][0, place]), place)
            return [*stages, _clock(plain(output)[0, place], where, step, before)] if clocked else stages
    if clocked:
        # A position that has halted keeps its vector, so the input may be the output of an earlier step.
        for earlier in reversed(range(time)):
            output = plain(intercepted.of(home)[earlier][1])
            if _same(output, before - added, place):
                return [_clock(output[0, place], where, step, before, earlier)]
    return [_below(home, before)]


def _decoder_input(before: Tensor, past: str) -> Stage:
    said = f"The previous target token after the decoder's {past}."
    return Stage("input", "x", said, [row("x", before)])


def _embedded(embedding: Any, token: int, place: int) -> list[Stage]:
    table = plain(embedding.table.weight[token])
    vector = table * embedding.scale
    width = len(table)
    scaled = embedding.scale != 1.0
    said = f"Row {token} of the embedding table is this token's embedding: {width} learnt numbers"
    said += f", multiplied by √{width}." if scaled else "."
    rows = [row("E[id]", table), row("e", vector)] if scaled else [row("e", vector)]
    stages = [Stage("embedding", f"e = E[{token}]" + (f" · √{width}" if scaled else ""), said, rows)]
    if not isinstance(embedding.position, NoPosition):
        where = _one(embedding.position, place)
        said = f"The positional encoding of position {place} is added."
        stages.append(Stage("position", f"x = e + p({place})", said, [row("p", where), row("x", vector + where)]))
        vector = vector + where
    if isinstance(embedding.norm, nn.LayerNorm):
        stages.append(normalized(vector, embedding.norm, "x", "x", "The sum is normalized.")[0])
    return stages


def _clock(prior: Tensor, where: Tensor, step: Tensor, before: Tensor, earlier: int | None = None) -> Stage:
    came = "The embedding" if earlier is None else f"The output of step {earlier}"
    said = f"{came}, plus the encodings of the position and of the step."
    rows = [row("h", prior), row("p", where), row("t", step), row("x", before)]
    return Stage("position and step", "x = h + p + t", said, rows)


def _below(home: str, before: Tensor) -> Stage:
    number = home.rpartition(".")[2]
    if number.isdecimal() and int(number) > 0:
        said = f"The output of layer {int(number) - 1}, the one below, for this token."
    elif home.startswith("encoder") and number == "0":
        said = "The stem's output for this part of the input."
    else:
        said = "The vector of this token so far."
    return Stage("input", "x", said, [row("x", before)])


def _same(output: Tensor, wanted: Tensor, place: int) -> bool:
    return output.ndim == 3 and place < output.shape[1] and torch.allclose(output[0, place], wanted, CLOSE, CLOSE)


def _one(position: nn.Module, place: int) -> Tensor:
    device = next((p.device for p in position.parameters()), torch.device("cpu"))
    return plain(position(torch.tensor([place], device=device)))[0]
