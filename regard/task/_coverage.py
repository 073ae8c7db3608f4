"""The coverage penalty (Wu et al. 2016, eq. 14): translations that leave source tokens unattended score lower.

    score(Y, X) = log P(Y | X) / length penalty + beta * sum over source tokens i of log(min(sum over j of p_ij, 1))

p_ij is the attention of target token j (END included) to source token i, the mean over layers and heads, as in word
alignment. It ranks finished hypotheses; open beams are chosen by log-probability alone, as with the length penalty.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.errors import UserError
from regard.layers.capture import capture
from regard.layers.observable import Observable
from regard.types import Memory, State
from regard.word_alignment import average

LEAST = 1e-6
"""Coverage below this counts as this: the logarithm of 0 would exclude a hypothesis. A departure from the paper."""


def coverage_penalty(coverage: Float[Tensor, "*N S"], mask: Bool[Tensor, "*N S"]) -> Float[Tensor, "*N"]:
    """sum over i of log(min(coverage_i, 1)), over the positions of the mask."""
    return coverage.clamp(LEAST, 1.0).log().masked_fill(~mask, 0.0).sum(-1)


class CoverageDecoder(nn.Module):
    """A decoder whose state also carries, for each beam, the attention that each source token got so far."""

    def __init__(self, decoder: Any, strength: float) -> None:
        """`strength` is beta."""
        super().__init__()
        self.decoder: Any = decoder
        self.strength = strength
        found = [
            module
            for name, module in decoder.named_modules()
            if name.endswith("cross_attention") and isinstance(module, Observable)
        ]
        if not found:
            raise UserError("this model has no attention to its source, so it has no coverage; leave out the penalty")
        self.attentions = nn.ModuleList(found)

    def start(self, memory: Memory, beams: int, capacity: int) -> State:
        inner = self.decoder.start(memory, beams, capacity)
        coverage = memory.states.new_zeros(len(memory) * beams, memory.mask.shape[1], dtype=torch.float32)
        both = {"decoder": inner.memory, "mask": memory.mask}
        return replace(inner, memory=both, carry={"decoder": inner.carry, "coverage": coverage})

    def step(self, ids: Int[Tensor, "R T"], state: State) -> tuple[Float[Tensor, "R 1 V"], State]:
        """Logits of the last position alone, and a state that has its attention, too."""
        inner = replace(state, memory=state.memory["decoder"], carry=state.carry["decoder"])
        if ids.shape[1] > 1:  # of BEGIN and a forced prefix, only the last position predicts a token that counts
            _, inner = self.decoder.step_last(ids[:, :-1], inner)
        with capture(self.attentions) as captured:
            logits, inner = self.decoder.step_last(ids[:, -1:], inner)
        weights = [call for name, calls in captured.items() if name.endswith("weights") for call in calls]
        coverage = state.carry["coverage"] + average(weights).flatten(0, 1)
        carry = {"decoder": inner.carry, "coverage": coverage}
        return logits, replace(inner, memory=state.memory, carry=carry)

    def final_bonus(self, state: State) -> Float[Tensor, "R"]:
        """What the coverage adds to the score of each beam if it ends with the last step; at most 0."""
        mask = state.memory["mask"].repeat_interleave(state.beams, 0)
        return self.strength * coverage_penalty(state.carry["coverage"], mask)
