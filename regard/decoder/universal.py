"""The Universal Transformer's decoder (Dehghani et al. 2019, 2.1): one layer, applied again and again."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard import registry
from regard.decoder._base import Decoder
from regard.decoder.transformer import DecoderLayer, empty_slots, places_in_slots
from regard.errors import UserError
from regard.layers.attend import as_cost
from regard.layers.embedding import TokenEmbedding
from regard.layers.halting import Halting, check_steps
from regard.layers.position.sinusoidal import Sinusoidal
from regard.layers.precision import computed_in
from regard.layers.residual import last_norm
from regard.layers.watch import told_together
from regard.types import PAD, Memory, State

__all__ = ["UniversalDecoder"]


class UniversalDecoder(Decoder):
    """H^t = layer(H^{t-1} + P^t), with the same layer at every step t. P^t says which position and which step it is.

    `layers` is the most steps there are, where a Transformer has as many layers. With `halting` each position takes as
    many of them as it needs, and the sum of what they took, times `ponder_cost`, is added to the loss of training.
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
    ):
        """`memory_width`: None where there is no memory to look at, 0 stands for `width`."""
        if memory_width and memory_width != width:
            raise UserError(
                f"model.decoder: is {width} wide, but looks at vectors of {memory_width}; make the widths equal"
            )
        check_steps(layers, "model.decoder")
        super().__init__(TokenEmbedding(vocabulary, width, "none", dropout, scale), width, tie)
        self.steps, self.heads, self.ponder_cost = layers, heads, ponder_cost
        self.position = registry.build("layers/position", position, "model.position", width=width)
        self.clock = Sinusoidal(width)
        self.layer = DecoderLayer(width, heads, feed_forward, dropout, norm, activation, memory_width is not None)
        self.halting = Halting(width, epsilon) if halting else None
        self.norm = last_norm(width, norm)

    def start(self, memory: Memory, rows: int, capacity: int) -> State:
        """Projects the memory once, for all steps, and for generation allocates `capacity` slots a row and step."""
        kept = self.layer.cross_attention.remember(memory.states) if self.layer.looks else {}
        weight = self.embedding.table.weight
        return State(
            rows=rows,
            position=torch.zeros((), dtype=torch.long, device=memory.states.device),
            memory={"cost": as_cost(memory.mask[:, None], computed_in(weight)), "kept": kept},
            **empty_slots(weight, len(memory), capacity, rows, self.steps, self.heads),
        )

    def advance(self, ids: Int[Tensor, "R T"], state: State) -> tuple[Float[Tensor, "R T D"], State]:
        x = self.embedding(ids)
        places, visible, filled = places_in_slots(ids, state)
        positions = self.position(places)
        times = self.clock(torch.arange(1, self.steps + 1, device=ids.device))

        def think(x: Tensor, step: int) -> Tensor:
            slots = state.slots[step] if state.slots else None
            x = x + (positions + times[step]).to(x.dtype)
            return self.layer(x, state.memory["kept"], state.memory["cost"], slots, places, visible, filled)

        cost = None
        with told_together(self.layer.modules(), axis=1):  # the heads of all steps, side by side
            if self.halting is None:
                for step in range(self.steps):
                    x = think(x, step)
            else:
                # All steps, also when all have halted: positions yet to come may think longer, and then look at what
                # these, standing still, have to show at the steps they did not need.
                x, ponder = self.halting(x, think, self.steps)
                cost = self.ponder_cost * (ponder * (ids != PAD)).sum(1)
        return self.norm(x), replace(state, position=state.position + ids.shape[1], cost=cost)
