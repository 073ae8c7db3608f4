"""Nearest-neighbour machine translation (Khandelwal et al. 2021) over a small datastore of each sentence's own.

The datastore of a sentence has a key and a value for every token of the translations that a memory found for it: the
decoder's hidden state before the token, and the token. In each step the model's distribution is mixed with that of the
tokens whose keys are nearest to the decoder's state. As in SK-MT (Dai et al. 2023) the datastore is made for each
sentence when it is translated, and the share of the neighbours falls with the distance of the nearest one, to 0 at
`TEMPERATURE`: where nothing is near, the model is alone. Departures: a distance is relative to the squared length of
the state, so one temperature serves models of any width; and the share is at most `MOST`.

A search knows only `start` and `step`, so every search can use it: the datastore travels as part of the memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.types import Memory, State

NEIGHBOURS = 4
TEMPERATURE = 0.5
MOST = 0.7
"""The largest share of the neighbours. A beam that could follow them at no cost would copy a similar translation."""


class Datastore(NamedTuple):
    """Keys and values of one sentence."""

    keys: Float[Tensor, "N D"]
    values: Int[Tensor, "N"]


def with_datastores(memory: Memory, datastores: Sequence[Datastore]) -> Memory:
    """The memory of a batch together with the datastore of each sentence, filled up with keys that are never near."""
    states = memory.states
    longest = max(1, *(len(one.values) for one in datastores))
    longest = -(-longest // 128) * 128 if states.is_cuda else longest  # few shapes: each is a CUDA graph of its own
    width = datastores[0].keys.shape[1]
    keys = states.new_zeros(len(datastores), longest, width)
    values = torch.full((len(datastores), longest), -1, device=states.device)
    for row, one in enumerate(datastores):
        keys[row, : len(one.values)] = one.keys
        values[row, : len(one.values)] = one.values
    return replace(memory, final={"final": memory.final, "keys": keys, "values": values})


class NearestNeighbourDecoder(nn.Module):
    """A decoder whose `step` gives mixed log-probabilities instead of logits; its memory is of `with_datastores`."""

    def __init__(self, decoder: nn.Module, neighbours: int = NEIGHBOURS, temperature: float = TEMPERATURE) -> None:
        """The decoder's step has two halves, `advance` and `project`."""
        super().__init__()
        self.decoder: Any = decoder
        self.neighbours, self.temperature = neighbours, temperature

    def start(self, memory: Memory, beams: int, capacity: int) -> State:
        """As of the decoder itself. The datastore belongs to what the state keeps per sentence."""
        held = memory.final
        state: State = self.decoder.start(replace(memory, final=held["final"]), beams, capacity)
        return replace(state, memory={"own": state.memory, "keys": held["keys"], "values": held["values"]})

    def step(self, ids: Int[Tensor, "R T"], state: State) -> tuple[Float[Tensor, "R 1 V"], State]:
        """The log-probabilities after the last position."""
        held = state.memory
        hidden, after = self.decoder.advance(ids, replace(state, memory=held["own"]))
        hidden = hidden[:, -1:]
        mixed = mix(
            self.decoder.project(hidden)[:, 0].log_softmax(-1, dtype=torch.float32),
            hidden[:, 0],
            held["keys"],
            held["values"],
            self.neighbours,
            self.temperature,
        )
        return mixed[:, None], replace(after, memory=held)


def mix(
    log_probs: Float[Tensor, "R V"],
    hidden: Float[Tensor, "R D"],
    keys: Float[Tensor, "B N D"],
    values: Int[Tensor, "B N"],
    neighbours: int,
    temperature: float,
) -> Float[Tensor, "R V"]:
    """log((1 - share) p + share p_neighbours), with R // B beams of each sentence."""
    states = hidden.view(len(keys), -1, hidden.shape[-1]).float()
    keys = keys.float()
    squares = states.square().sum(-1, keepdim=True)
    distances = squares + keys.square().sum(-1)[:, None] - 2 * states @ keys.transpose(1, 2)
    distances = (distances / squares).clamp(min=0).masked_fill((values < 0)[:, None], torch.inf)
    nearest, at = distances.topk(min(neighbours, distances.shape[-1]), largest=False)
    share = MOST * (1 - nearest[..., :1] / temperature).clamp(min=0)
    weights = (-nearest / temperature).softmax(-1).nan_to_num(0.0) * share
    tokens = values[:, None].expand_as(distances).gather(2, at).clamp(min=0)
    kept = torch.log1p(-share).flatten(0, 1)
    of_neighbours = torch.zeros_like(log_probs).scatter_add_(1, tokens.flatten(0, 1), weights.flatten(0, 1))
    return torch.logaddexp(log_probs + kept, of_neighbours.log())
