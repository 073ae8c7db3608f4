"""The Universal Transformer's decoder (Dehghani et al. 2019, 2.1): one layer, applied several times."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard import registry
from regard.decoder._base import Decoder
from regard.decoder.transformer import DecoderLayer, check_memory_width, start_state
from regard.layers.attention._base import build_attention
from regard.layers.embedding import TokenEmbedding
from regard.layers.feed_forward import FeedForward
from regard.layers.halting import Halting, check_steps
from regard.layers.kv_cache import cache_positions
from regard.layers.observe_jointly import observe_jointly
from regard.layers.position.sinusoidal import Sinusoidal
from regard.layers.precision import computed_in
from regard.layers.residual import Residual, last_norm
from regard.types import PAD, Memory, State

__all__ = ["UniversalDecoder"]


class UniversalDecoder(Decoder):
    """H^t = layer(H^{t-1} + P^t), with the same layer at every step t. P^t encodes the position and the step.

    `layers` is the maximum number of steps. With `halting` each position takes as many of them as it needs, and the
    sum of their ponder times, weighted by `ponder_cost`, is added to the training loss.
    """

    def __init__(
        self,
        vocabulary: int,
        memory_width: int | None = 0,
        width: int = 512,
        layers: int = 6,
        heads: int = 8,
        feed_forward: int = 2048,
        dropout: float = 0.1,
        norm: str = "post",
        activation: str = "relu",
        position: str | dict[str, object] = "sinusoidal",
        halting: bool = True,
        ponder_cost: float = 0.01,
        epsilon: float = 0.01,
        tie: bool = True,
        scale: bool = True,
        attention: str | dict[str, Any] = "multi_head",
    ):
        """`memory_width`: None without a memory (a language model); 0 means `width`."""
        check_memory_width(memory_width, width)
        check_steps(layers, "model.decoder")
        super().__init__(TokenEmbedding(vocabulary, width, "none", dropout, scale), width, tie)
        self.steps, self.ponder_cost = layers, ponder_cost
        self.position = registry.build("layers/position", position, "model.position", width=width)
        self.clock = Sinusoidal(width)
        attends = functools.partial(build_attention, attention, "model.decoder.attention", width, width, heads)
        self.layer = DecoderLayer(
            attends(),
            None if memory_width is None else attends(),
            FeedForward(width, feed_forward, activation),
            lambda: Residual(width, dropout, norm),
        )
        self.halting = Halting(width, epsilon) if halting else None
        self.norm = last_norm(width, norm)

    def start(self, memory: Memory, beams: int, capacity: int) -> State:
        """Projects the memory once for all steps and allocates a KV cache of `capacity` positions per beam and step."""
        return start_state(self.embedding.table.weight, [self.layer], memory, beams, capacity, uses=self.steps)

    def advance(self, ids: Int[Tensor, "R T"], state: State) -> tuple[Float[Tensor, "R T D"], State]:
        x = self.embedding(ids)
        at = cache_positions(ids, state, computed_in(x))
        positions = self.position(at.positions)
        times = self.clock(torch.arange(1, self.steps + 1, device=ids.device))

        def transition(x: Tensor, step: int) -> Tensor:
            cached = (state.cache[step], at) if state.cache else ()
            x = x + (positions + times[step]).to(x.dtype)
            return self.layer(x, state.memory["layers"][0], state.memory["bias"], at.of_queries, *cached)

        cost = None
        with observe_jointly(self.layer.modules(), axis=1):  # the heads of all steps side by side
            if self.halting is None:
                for step in range(self.steps):
                    x = transition(x, step)
            else:
                # Every step runs, even when all positions have halted: later positions may take more steps, and then
                # attend to the states of these at the steps that they did not need themselves.
                x, ponder = self.halting(x, transition, self.steps)
                cost = self.ponder_cost * (ponder * (ids != PAD)).sum(1)
        return self.norm(x), replace(state, position=state.position + ids.shape[1], ponder_cost=cost)
