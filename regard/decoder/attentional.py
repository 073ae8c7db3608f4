"""The recurrent decoder with attention: at every word it looks at the source again.

Two orders. "before", Bahdanau's: look with the state one has, then move on with what was seen. "after", Luong's: move
on, then look with the new state, and feed what came of it into the next step (`feed`). Without that feeding nothing
that is seen goes into the recurrence, so that in training all positions are computed at once.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard import registry
from regard.decoder._base import Decoder
from regard.errors import UserError
from regard.layers.attention._base import Attention
from regard.layers.bridge import Bridge
from regard.layers.cell._base import CellState
from regard.layers.embedding import TokenEmbedding
from regard.layers.recurrence import Recurrence
from regard.layers.watch import told_together
from regard.types import Memory, State, map_tree

__all__ = ["AttentionalDecoder"]

ORDERS = ("before", "after")


class AttentionalDecoder(Decoder):
    """before: c_i = look(s_{i-1}), s_i = cell(s_{i-1}, [y_{i-1}; c_i]), maxout(s_i, y_{i-1}, c_i) (Bahdanau 2015);

    after: h_t = cell(h_{t-1}, [y_{t-1}; a_{t-1}]), c_t = look(h_t), a_t = tanh(W_c [c_t; h_t]) (Luong et al. 2015).
    """

    def __init__(
        self,
        vocabulary: int,
        memory_width: int | None = 0,
        width: int = 512,
        embedding: int = 0,
        layers: int = 1,
        cell: str = "gru",
        attention: str | dict[str, object] = "additive",
        order: str = "before",
        feed: bool = True,
        dropout: float = 0.1,
        layer_norm: bool = False,
        bridge: str = "dense",
        tie: bool = True,
    ):
        """`memory_width` and `embedding`: 0 stands for `width`."""
        if memory_width is None:
            raise UserError("model.decoder: attentional has nothing to look at here; use recurrent or transformer")
        if order not in ORDERS:
            raise UserError(f"model.decoder.order: no '{order}'; use {' or '.join(ORDERS)}")
        embedded = embedding or width
        hidden = embedded if order == "before" else width
        super().__init__(TokenEmbedding(vocabulary, embedded, "none", dropout), hidden, tie)
        memory_width = memory_width or width
        self.cross_attention: Attention = registry.build(
            "layers/attention", attention, "model.decoder.attention", width=width, memory_width=memory_width
        )
        context = self.cross_attention.context
        kind = attention if isinstance(attention, str) else str(attention["kind"])
        told = "memory_width" in registry.keywords(registry.factory("layers/attention", kind))
        if not told and memory_width != width:
            raise UserError(
                f"model.decoder.attention: {kind} needs a memory ({memory_width}) as wide as the decoder ({width}); "
                "make the widths equal"
            )
        self.before, self.fed = order == "before", feed and order == "after"
        extra = context if self.before else hidden if self.fed else 0
        self.recurrence = Recurrence(embedded + extra, width, layers, cell, "forward", dropout, layer_norm)
        self.bridge = Bridge(memory_width, width, layers, self.recurrence.parts, bridge)
        # What is said is made of state, seen and, in Bahdanau's order, the word before.
        inward = width + context + (embedded if self.before else 0)
        self.readout = nn.Linear(inward, 2 * hidden if self.before else hidden, bias=self.before)
        self.dropout = nn.Dropout(dropout)

    def start(self, memory: Memory, rows: int, capacity: int) -> State:
        carry: dict[str, object] = {"layers": self.bridge(memory)}
        if self.fed:
            carry["said"] = memory.states.new_zeros(len(memory), self.readout.out_features)
        return State(
            rows=rows,
            position=torch.zeros((), dtype=torch.long, device=memory.states.device),
            memory={"mask": memory.mask[:, None], "kept": self.cross_attention.remember(memory.states)},
            carry=map_tree(lambda part: part.repeat_interleave(rows, 0), carry),
        )

    def advance(self, ids: Int[Tensor, "R T"], state: State) -> tuple[Float[Tensor, "R T D"], State]:
        words = self.embedding(ids)
        if self.before or self.fed:
            with told_together([self.cross_attention, *self.recurrence.cells]):
                said, carry = self._step_by_step(words, state)
        else:
            states, layers = self.recurrence(words, state=state.carry["layers"])
            seen = self._look(states, state, state.position + torch.arange(ids.shape[1], device=ids.device))
            said, carry = torch.tanh(self.readout(torch.cat([states, seen], -1))), {"layers": layers}
        return self.dropout(said), replace(state, carry=carry, position=state.position + ids.shape[1])

    def _step_by_step(self, words: Float[Tensor, "R T E"], state: State) -> tuple[Tensor, dict[str, object]]:
        first = self.recurrence.layer(0)[0]
        of_words, of_extra = first.inward.split([words.shape[-1], first.inward.shape[-1] - words.shape[-1]], -1)
        # The words' share of b + U [y; extra] is computed for all positions at once, the rest as it comes.
        shares = F.linear(words, of_words, first.early_bias)
        of_extra = of_extra.to(shares.dtype)
        places = state.position + torch.arange(words.shape[1], device=words.device)
        layers: list[CellState] = state.carry["layers"]
        said = state.carry.get("said")
        found = []
        for t, share in enumerate(shares.unbind(1)):
            if self.before:
                seen = self._look(layers[-1][0][:, None], state, places[t : t + 1])[:, 0]
                layers = self.recurrence.step(share + F.linear(seen, of_extra), layers)
                found.append(torch.cat([layers[-1][0], seen], -1))
            else:
                layers = self.recurrence.step(share + F.linear(said, of_extra), layers)
                seen = self._look(layers[-1][0][:, None], state, places[t : t + 1])[:, 0]
                said = torch.tanh(self.readout(torch.cat([layers[-1][0], seen], -1)))
                found.append(said)
        together = torch.stack(found, 1)
        if not self.before:
            return together, {"layers": layers, "said": said}
        pairs = self.readout(torch.cat([together, words], -1)).unflatten(-1, (-1, 2))
        return pairs.amax(-1), {"layers": layers}  # maxout

    def _look(self, query: Float[Tensor, "R T D"], state: State, places: Int[Tensor, "T"]) -> Float[Tensor, "R T C"]:
        """The rows of a sentence are so many queries to its one memory, which therefore is never copied."""
        mask, kept = state.memory["mask"], state.memory["kept"]
        rows, length = len(query), query.shape[1]
        together = query.reshape(len(mask), state.rows * length, -1)
        seen = self.cross_attention.recall(together, kept, mask, places.repeat(state.rows))
        return seen.reshape(rows, length, -1)
