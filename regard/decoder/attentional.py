"""The recurrent decoder with attention to the source at every step.

Two orders. "before" (Bahdanau): attend with the current state, then update it with the context. "after" (Luong):
update the state, attend with the new one, and feed the result into the next step (`feed`, input feeding). Without input
feeding the recurrence does not depend on the context, so training computes all positions at once.
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
from regard.layers.attention._base import build_attention
from regard.layers.bridge import Bridge
from regard.layers.cell._base import CellState
from regard.layers.embedding import TokenEmbedding
from regard.layers.observe_jointly import observe_jointly
from regard.layers.recurrence import Recurrence
from regard.types import Memory, State, map_tree

__all__ = ["AttentionalDecoder"]

ORDERS = ("before", "after")
FAMILY = "layers/attention"


class AttentionalDecoder(Decoder):
    """before: c_i = attend(s_{i-1}), s_i = cell(s_{i-1}, [y_{i-1}; c_i]), maxout(s_i, y_{i-1}, c_i) (Bahdanau 2015);

    after: h_t = cell(h_{t-1}, [y_{t-1}; a_{t-1}]), c_t = attend(h_t), a_t = tanh(W_c [c_t; h_t]) (Luong et al. 2015).
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
        """`memory_width` and `embedding`: 0 means `width`."""
        if memory_width is None:
            raise UserError("model.decoder: attentional needs a source to attend to; use recurrent or transformer")
        if order not in ORDERS:
            raise UserError(f"model.decoder.order: no '{order}'; use {' or '.join(ORDERS)}")
        embedded = embedding or width
        hidden = embedded if order == "before" else width
        super().__init__(TokenEmbedding(vocabulary, embedded, "none", dropout), hidden, tie)
        memory_width = memory_width or width
        self.cross_attention = build_attention(attention, "model.decoder.attention", width, memory_width)
        kind = attention if isinstance(attention, str) else str(attention["kind"])
        if memory_width != width and "memory_width" not in registry.keywords(registry.factory(FAMILY, kind)):
            raise UserError(
                f"model.decoder.attention: {kind} needs a memory ({memory_width}) as wide as the decoder ({width}); "
                "make the widths equal"
            )
        context = self.cross_attention.context
        self.before, self.fed = order == "before", feed and order == "after"
        extra = context if self.before else hidden if self.fed else 0
        self.recurrence = Recurrence(embedded + extra, width, layers, cell, "forward", dropout, layer_norm)
        self.bridge = Bridge(memory_width, width, layers, self.recurrence.parts, bridge)
        # The output is computed from state, context and, in Bahdanau's order, the previous token.
        inward = width + context + (embedded if self.before else 0)
        self.readout = nn.Linear(inward, 2 * hidden if self.before else hidden, bias=self.before)
        self.dropout = nn.Dropout(dropout)

    def start(self, memory: Memory, beams: int, capacity: int) -> State:
        carry: dict[str, object] = {"layers": self.bridge(memory)}
        if self.fed:
            carry["output"] = memory.states.new_zeros(len(memory), self.readout.out_features)
        return State(
            beams=beams,
            position=torch.zeros((), dtype=torch.long, device=memory.states.device),
            memory={"mask": memory.mask[:, None], "projected": self.cross_attention.project_memory(memory.states)},
            carry=map_tree(lambda part: part.repeat_interleave(beams, 0), carry),
        )

    def advance(self, ids: Int[Tensor, "R T"], state: State) -> tuple[Float[Tensor, "R T D"], State]:
        embedded = self.embedding(ids)
        if self.before or self.fed:
            with observe_jointly([self.cross_attention, *self.recurrence.cells]):
                output, carry = self._step_by_step(embedded, state)
        else:
            states, layers = self.recurrence(embedded, state=state.carry["layers"])
            context = self._attend(states, state, state.position + torch.arange(ids.shape[1], device=ids.device))
            output, carry = torch.tanh(self.readout(torch.cat([states, context], -1))), {"layers": layers}
        return self.dropout(output), replace(state, carry=carry, position=state.position + ids.shape[1])

    def _step_by_step(self, embedded: Float[Tensor, "R T E"], state: State) -> tuple[Tensor, dict[str, object]]:
        first = self.recurrence.layer(0)[0]
        of_tokens, of_extra = first.inward.split([embedded.shape[-1], first.inward.shape[-1] - embedded.shape[-1]], -1)
        # The tokens' share of b + U [y; extra] is computed for all positions at once, the rest step by step.
        shares = F.linear(embedded, of_tokens, first.early_bias)
        of_extra = of_extra.to(shares.dtype)
        positions = state.position + torch.arange(embedded.shape[1], device=embedded.device)
        layers: list[CellState] = state.carry["layers"]
        output = state.carry.get("output")
        outputs = []
        for t, share in enumerate(shares.unbind(1)):
            if self.before:
                context = self._attend(layers[-1][0][:, None], state, positions[t : t + 1])[:, 0]
                layers = self.recurrence.step(share + F.linear(context, of_extra), layers)
                outputs.append(torch.cat([layers[-1][0], context], -1))
            else:
                layers = self.recurrence.step(share + F.linear(output, of_extra), layers)
                context = self._attend(layers[-1][0][:, None], state, positions[t : t + 1])[:, 0]
                output = torch.tanh(self.readout(torch.cat([layers[-1][0], context], -1)))
                outputs.append(output)
        together = torch.stack(outputs, 1)
        if not self.before:
            return together, {"layers": layers, "output": output}
        pairs = self.readout(torch.cat([together, embedded], -1)).unflatten(-1, (-1, 2))
        return pairs.amax(-1), {"layers": layers}  # maxout

    def _attend(
        self, query: Float[Tensor, "R T D"], state: State, positions: Int[Tensor, "T"]
    ) -> Float[Tensor, "R T C"]:
        """All beams of a sentence are queries to its one memory, which therefore is never copied."""
        mask, projected = state.memory["mask"], state.memory["projected"]
        beams, length = len(query), query.shape[1]
        queries = query.reshape(len(mask), state.beams * length, -1)
        context = self.cross_attention.attend(queries, projected, mask, positions.repeat(state.beams))
        return context.reshape(beams, length, -1)
