"""The Transformer's decoder (Vaswani et al. 2017, 3.1): it looks back at its own words, then across at the source."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.decoder._base import Decoder
from regard.errors import UserError
from regard.layers.attend import as_cost
from regard.layers.attention._base import Kept, Mask
from regard.layers.attention.multi_head import MultiHead
from regard.layers.compiling import Repeated
from regard.layers.embedding import TokenEmbedding
from regard.layers.feed_forward import FeedForward
from regard.layers.precision import computed_in
from regard.layers.residual import Residual, last_norm
from regard.types import Memory, State

__all__ = ["TransformerDecoder"]

Slots = Float[Tensor, "B L N 2 H K"]
"""The keys and values of a layer: a place for each position and each of a sentence's N rows."""


class DecoderLayer(Repeated):
    """Masked self-attention, attention to the memory, feed-forward, each inside a residual connection."""

    def __init__(
        self, width: int, heads: int, feed_forward: int, dropout: float, norm: str, activation: str, looks: bool = True
    ):
        """Without `looks` there is no attention to a memory: a language model's layer."""
        super().__init__()
        self.looks = looks
        self.attention = MultiHead(width, heads)
        if looks:
            self.cross_attention = MultiHead(width, heads)
            self.around_cross_attention = Residual(width, dropout, norm)
        self.feed_forward = FeedForward(width, feed_forward, activation)
        self.around_attention = Residual(width, dropout, norm)
        self.around_feed_forward = Residual(width, dropout, norm)

    def forward(
        self,
        x: Float[Tensor, "R T D"],
        memory: Kept,
        memory_mask: Mask,
        slots: Slots | None,
        places: Int[Tensor, "T"],
        visible: Mask,
        filled: int,
    ) -> Float[Tensor, "R T D"]:
        x = self.around_attention(x, lambda x: self._look_back(x, slots, places, visible, filled))
        if self.looks:
            x = self.around_cross_attention(x, lambda x: self._look_across(x, memory, memory_mask))
        return self.around_feed_forward(x, self.feed_forward)

    def _look_back(self, x: Tensor, slots: Slots | None, places: Tensor, visible: Tensor | None, filled: int) -> Tensor:
        if slots is None:
            return self.attention.to_itself(x, causal=True)
        query, both = self.attention.project(x)
        slots.index_copy_(1, places, both.unflatten(0, (len(slots), -1)).transpose(1, 2))
        # All rows of a sentence look at all that its rows wrote; `visible` is what of it is their own past.
        queries = query.unflatten(0, (len(slots), -1)).flatten(1, 2)
        key, value = slots[:, :filled].flatten(1, 2).unbind(2)
        return self.attention.look(queries, key, value, visible).view(x.shape)

    def _look_across(self, x: Tensor, memory: Kept, mask: Mask) -> Tensor:
        # The rows of a sentence are so many queries to its one memory, which therefore is never copied.
        together = x.reshape(len(memory["key"]), -1, x.shape[-1])
        return self.cross_attention.recall(together, memory, mask).reshape(x.shape)


class TransformerDecoder(Decoder):
    """A stack of decoder layers between an embedding and a projection to the vocabulary.

    Pre-norm, with learned positions, gelu and no scale it is GPT-2 (Radford et al. 2019).
    """

    recordable: ClassVar[bool] = True

    def __init__(
        self,
        vocabulary: int,
        width: int = 512,
        layers: int = 6,
        heads: int = 8,
        feed_forward: int = 2048,
        dropout: float = 0.1,
        norm: str = "post",
        activation: str = "relu",
        position: str | dict[str, object] = "sinusoidal",
        tie: bool = True,
        scale: bool = True,
        memory_width: int | None = 0,
    ):
        """`memory_width`: None where there is no memory to look at, 0 stands for `width`."""
        if memory_width and memory_width != width:
            raise UserError(
                f"model.decoder: is {width} wide, but looks at vectors of {memory_width}; make the widths equal"
            )
        super().__init__(TokenEmbedding(vocabulary, width, position, dropout, scale), width, tie)
        self.looks, self.heads = memory_width is not None, heads
        self.layers: Iterable[DecoderLayer] = nn.ModuleList(  # type: ignore[assignment]
            DecoderLayer(width, heads, feed_forward, dropout, norm, activation, self.looks) for _ in range(layers)
        )
        self.norm = last_norm(width, norm)

    def start(self, memory: Memory, rows: int, capacity: int) -> State:
        """Projects the memory once for every layer and, for generation, allocates `capacity` slots a row."""
        kept = [layer.cross_attention.remember(memory.states) if self.looks else {} for layer in self.layers]
        weight = self.embedding.table.weight
        return State(
            rows=rows,
            position=torch.zeros((), dtype=torch.long, device=memory.states.device),
            memory={"cost": as_cost(memory.mask[:, None], computed_in(weight)), "layers": kept},
            **empty_slots(weight, len(memory), capacity, rows, len(kept), self.heads),
        )

    def advance(self, ids: Int[Tensor, "R T"], state: State) -> tuple[Float[Tensor, "R T D"], State]:
        x = self.embedding(ids, state.position)
        x = x.to(computed_in(x))
        places, visible, filled = places_in_slots(ids, state)
        for index, layer in enumerate(self.layers):
            slots = state.slots[index] if state.slots else None
            x = layer(x, state.memory["layers"][index], state.memory["cost"], slots, places, visible, filled)
        return self.norm(x), replace(state, position=state.position + ids.shape[1])


def empty_slots(like: Tensor, sentences: int, capacity: int, rows: int, layers: int, heads: int) -> dict[str, Any]:
    """The parts of a state that hold keys and values, of the type that projections have: under autocast not the
    weights'."""
    if not capacity:
        return {"slots": []}
    shape = sentences, capacity, rows, 2, heads, like.shape[-1] // heads
    return {
        "slots": [torch.zeros(shape, dtype=computed_in(like), device=like.device) for _ in range(layers)],
        "origin": torch.zeros(sentences * rows, capacity, dtype=torch.int16, device=like.device),
    }


def places_in_slots(ids: Int[Tensor, "R T"], state: State) -> tuple[Int[Tensor, "T"], Mask, int]:
    """Where the tokens' keys and values go, what of all slots each row may then look at (None: everything), and how
    many positions that are."""
    length = ids.shape[1]
    places = state.position + torch.arange(length, device=ids.device)
    if not state.slots:
        return places, None, 0
    capacity, rows, dtype = state.slots[0].shape[1], state.rows, state.slots[0].dtype
    # On the CPU reading the position is free: empty slots are left out. A GPU would wait: they are masked.
    filled = int(state.position) + length if ids.device.type == "cpu" else capacity
    past = (
        None if length == 1 and ids.device.type == "cpu" else torch.arange(filled, device=ids.device) <= places[:, None]
    )
    if rows == 1:
        return places, None if past is None else as_cost(past, dtype), filled
    assert state.origin is not None
    numbers = torch.arange(rows, dtype=state.origin.dtype, device=ids.device)
    state.origin.index_copy_(1, places, numbers.repeat(len(ids) // rows)[:, None].expand(-1, length))
    own = (state.origin[:, None, :filled, None] == numbers).expand(-1, length, -1, -1)
    if past is not None:
        own = own & past[:, :, None]
    return places, as_cost(own.reshape(len(ids) // rows, rows * length, filled * rows), dtype), filled
