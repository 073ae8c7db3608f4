"""The arithmetic of any attention that defines `scores`: scores, mask, softmax, weighted sum of the values."""

from __future__ import annotations

import torch

from regard.inspection.record.arithmetic.attention._scored import states, weighted
from regard.inspection.record.arithmetic.interception import Call, plain
from regard.inspection.record.arithmetic.query_origin import QueryOrigin
from regard.inspection.record.arithmetic.stages import Spelled, of_tokens
from regard.inspection.trace.arithmetic import Stage
from regard.layers.attention._base import Attention


def from_scores(
    attention: Attention, call: Call, place: int, head: int, names: list[str], given: QueryOrigin
) -> Spelled:
    device = next((p.device for p in attention.parameters()), torch.device("cpu"))
    query, memory = call.query[place][None, None].to(device), call.memory[None].to(device)
    mask, position = call.visible[place][None, None].to(device), call.places[place : place + 1].to(device)
    projected = attention.project_memory(memory)
    scores = plain(attention.scores(query, projected, mask, position))[0, 0]
    value = plain(projected["value"])[0]
    sentence = f"One number for each token: how well it matches, by the scores of {type(attention).__name__}."
    formula = f"scoreⱼ = score({given.symbol}, {given.of_keys})"
    scored = Stage("scores", formula, sentence, of_tokens(names, scores, "score"))
    stages = [states(names, call.memory, given), scored]
    if value.shape != call.memory.shape or not torch.equal(value, call.memory):
        sentence = "What each token contributes where it is attended to."
        stages.insert(1, Stage("values", f"vⱼ = value({given.of_keys})", sentence, of_tokens(names, value, "v")))
    return weighted(stages, names, scores, call.visible[place], value)
