"""Music of independent keys: after each step a recurrent network gives every key a probability of sounding next.

Published likelihoods of the JSB chorales are of such models (Chung et al. 2014; Bai, Kolter and Koltun 2018). Of music
written as text, keys from low to high and then a bar (data/music.py), their likelihood is a product over the tokens,
so they are language models like all others:

    p(next key k | last key j, past) = p_k * product over j < i < k of (1 - p_i)
    p(bar | last key j, past)        =       product over i > j of (1 - p_i)

Its tokenizer is `pitches`. That a piece ends is decided before each step, by one more probability of its own.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.decoder._base import Decoder
from regard.errors import UserError
from regard.layers.embedding import TokenEmbedding
from regard.layers.recurrence import Recurrence
from regard.types import END, Memory, State

__all__ = ["IndependentKeys"]

BAR = 4
"""The id of the bar; the keys follow it from low to high."""
NEVER = -1e4
"""The log-probability of a token that cannot follow: finite, so that a forced one costs much, but is no NaN."""


class IndependentKeys(Decoder):
    """s_t = cell(s_{t-1}, sum of the embeddings of the keys of step t); p_t+1 = sigmoid(W s_t + b), for each key.

    A sum of embeddings is a linear layer over a binary vector of keys, which is what the published models read.
    """

    identity: Tensor

    def __init__(
        self,
        vocabulary: int,
        memory_width: int | None = 0,
        width: int = 200,
        layers: int = 1,
        cell: str = "lstm",
        dropout: float = 0.1,
        layer_norm: bool = False,
    ):
        if memory_width is not None:
            raise UserError("model.decoder: independent_keys has no source to attend to; it is for language models")
        if vocabulary < BAR + 2:
            raise UserError(f"model.decoder: {vocabulary} tokens are no keys; use the tokenizer pitches")
        super().__init__(TokenEmbedding(vocabulary, width, "none", dropout), width, tie=True)
        self.width = width
        self.recurrence = Recurrence(width, width, layers, cell, "forward", dropout, layer_norm)
        self.dropout = nn.Dropout(dropout)
        self.keys = nn.Linear(width, 1 + vocabulary - BAR - 1)
        """The log-odds of the end, then of every key."""
        self.register_buffer("identity", torch.eye(vocabulary), persistent=False)

    def start(self, memory: Memory, beams: int, capacity: int) -> State:
        zero = torch.zeros(len(memory) * beams, self.width, device=memory.states.device)
        return State(
            beams=beams,
            position=torch.zeros((), dtype=torch.long, device=zero.device),
            carry={
                "cells": [(zero,) * self.recurrence.parts for _ in self.recurrence.cells],
                "output": zero,  # after the last finished step
                "unfinished": zero,  # the sum of embeddings of the step that has no bar yet
            },
        )

    def advance(self, ids: Int[Tensor, "R T"], state: State) -> tuple[Float[Tensor, "R T V"], State]:
        """The log-probabilities themselves; the projection to the vocabulary is the identity."""
        finished = (ids == BAR).cumsum(1)
        outputs, carry = self._read_steps(ids, finished, state)
        seen = outputs.gather(1, finished[..., None].expand(-1, -1, self.width))
        log_p = self._log_probabilities(self.keys(self.dropout(seen)).float(), ids)
        return log_p, replace(state, carry=carry, position=state.position + ids.shape[1])

    def _read_steps(
        self, ids: Int[Tensor, "R T"], finished: Int[Tensor, "R T"], state: State
    ) -> tuple[Float[Tensor, "R N W"], dict[str, object]]:
        """The network's outputs before and after each step that these tokens finish, and what is carried on."""
        carry, count, last = state.carry, int(finished.max()), finished[:, -1]
        vectors = self.embedding(ids) * (ids >= BAR)[..., None]
        steps = vectors.new_zeros(len(ids), count + 1, self.width)
        belongs = finished - (ids == BAR).long()  # a bar belongs to the step that it finishes
        steps = steps.scatter_add(1, belongs[..., None].expand(-1, -1, self.width), vectors)
        steps = torch.cat([steps[:, :1] + carry["unfinished"].to(steps.dtype)[:, None], steps[:, 1:]], 1)
        cells, outputs = carry["cells"], carry["output"][:, None]
        if count:
            real = torch.arange(count, device=ids.device) < last[:, None]
            found, cells = self.recurrence(steps[:, :count], real, cells)
            outputs = torch.cat([outputs.to(found.dtype), found], 1)
        return outputs, {"cells": cells, "output": _row(outputs, last), "unfinished": _row(steps, last)}

    def _log_probabilities(self, odds: Float[Tensor, "R T K"], ids: Int[Tensor, "R T"]) -> Float[Tensor, "R T V"]:
        end, keys = odds[..., :1], odds[..., 1:]
        lowest = (ids - BAR).clamp(min=0)[..., None]  # within a step the next key is above the last one
        may = torch.arange(keys.shape[-1], device=ids.device) >= lowest
        silent = F.logsigmoid(-keys).masked_fill(~may, 0.0)
        below = silent.cumsum(-1) - silent  # the log-probability that all keys between are silent
        sounding = (F.logsigmoid(keys) + below).masked_fill(~may, NEVER)
        begins = lowest == 0
        goes_on = torch.where(begins, F.logsigmoid(-end), 0.0)
        never = torch.full_like(end, NEVER).expand(-1, -1, BAR)
        ends = torch.where(begins, F.logsigmoid(end), NEVER)
        specials = torch.cat([never[..., :END], ends], -1)
        return torch.cat([specials, silent.sum(-1, keepdim=True) + goes_on, sounding + goes_on], -1)

    def output_weight(self) -> Float[Tensor, "V V"]:
        """The identity: a softmax of log-probabilities leaves them as they are."""
        return self.identity


def _row(of: Float[Tensor, "R N W"], index: Int[Tensor, "R"]) -> Float[Tensor, "R W"]:
    return of[torch.arange(len(of), device=of.device), index]
