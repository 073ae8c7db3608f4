"""A masked language model (Devlin et al. 2019): predicts masked tokens from their context."""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.encoder._base import Encoder
from regard.errors import UserError
from regard.layers.cross_entropy import projected_loss
from regard.layers.feed_forward import build_activation
from regard.model._base import Model
from regard.stem._base import Stem
from regard.types import END, PAD, UNKNOWN, Batch, LossSum

__all__ = ["MaskedLanguageModel"]

MASK = UNKNOWN
"""The mask token of models trained here. BERT has an id of its own for it; every tokenizer here has UNKNOWN, so the
weights fit any other model with the same tokenizer."""
REPLACED, KEPT = 0.1, 0.1


class MaskedLanguageModel(Model):
    """logits = norm(gelu(W h + b)) E^T + c, where E is the stem's embedding table or, without `tie`, one of its own.

    In training 80% of the chosen tokens are masked, 10% replaced by a random one and 10% kept, because text at
    inference has no masks. In validation all chosen tokens are masked, and the choice depends on the text alone, so
    that losses are comparable.
    """

    tasks: ClassVar[tuple[str, ...]] = ("fill",)

    def __init__(
        self,
        stem: Stem,
        encoder: Encoder,
        activation: str = "gelu",
        norm_epsilon: float = 1e-5,
        tie: bool = True,
        mask: int = MASK,
        label_smoothing: float = 0.0,
    ):
        """`mask`: the id of the mask token."""
        super().__init__()
        embedding = stem.token_embedding
        if embedding is None:
            raise UserError("model.stem: only tokens can be masked; use tokens")
        self.stem, self.encoder = stem, encoder
        vocabulary, width = embedding.table.weight.shape
        self.dense = nn.Linear(encoder.width, width)
        self.activation = build_activation(activation)
        self.norm = nn.LayerNorm(width, eps=norm_epsilon)
        self.output = None if tie else nn.Linear(width, vocabulary, bias=False)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        if not 0 <= mask < vocabulary:
            raise UserError(f"the mask token has the id {mask}, but there are {vocabulary:,} tokens")
        self.mask, self.label_smoothing = mask, label_smoothing

    @property
    def table(self) -> Tensor:
        """The vectors of the tokens that are predicted."""
        if self.output is not None:
            return self.output.weight
        assert self.stem.token_embedding is not None
        return self.stem.token_embedding.table.weight

    def forward(
        self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"], positions: Int[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B T V"]:
        """The logits of the token at every position, or only at some positions of each example."""
        return self._transformed(self.encoder(*self.stem(source, mask)).states, positions) @ self.table.T + self.bias

    def _transformed(self, states: Tensor, positions: Tensor | None) -> Tensor:
        if positions is not None:
            states = states.gather(1, positions[..., None].expand(-1, -1, states.shape[2]))
        return self.norm(self.activation(self.dense(states)))

    def hide(
        self, source: Int[Tensor, "B S"], chosen: Bool[Tensor, "B T"]
    ) -> tuple[Int[Tensor, "B S"], Int[Tensor, "B T"], Int[Tensor, "B T"]]:
        """The source with as many tokens masked as `chosen` is True; their positions, and their ids (PAD: none)."""
        order = torch.rand(source.shape, device=source.device) if self.training else _by_text(source)
        order = order.masked_fill(source <= END, 2.0)  # special tokens come last
        positions = order.topk(chosen.shape[1], largest=False).indices
        was = source.gather(1, positions).masked_fill(~chosen, PAD)
        now = torch.full_like(was, self.mask)
        if self.training:
            draw = torch.rand(was.shape, device=was.device)
            other = torch.randint(END + 1, len(self.table), was.shape, device=was.device)
            now = torch.where(draw < KEPT, was, torch.where(draw < KEPT + REPLACED, other, now))
        masked = source.scatter(1, positions, torch.where(chosen, now, source.gather(1, positions)))
        return masked, positions, was

    def loss(self, batch: Batch) -> LossSum:
        """-log p of the masked tokens; the target mask says how many there are."""
        source, positions, was = self.hide(batch.source.masked_fill(~batch.source_mask, PAD), batch.target_mask)
        memory = self.encoder(*self.stem(source, batch.source_mask))
        hidden = self._transformed(memory.states, positions)
        total = projected_loss(hidden, self.table, was, self.label_smoothing, self.bias)
        return LossSum(self.with_ponder_cost(total, memory.ponder_cost), batch.units)


def _by_text(source: Tensor) -> Tensor:
    """A pseudo-random number in 0..1 for each position, from text and position alone, whatever the padding."""
    positions = torch.arange(1, source.shape[1] + 1, device=source.device)
    text = (source * positions).sum(1, keepdim=True)  # padding is 0 and adds nothing
    mixed = text * 0x9E3779B1 + positions * 0x85EBCA6B
    for _ in range(2):
        mixed = (mixed ^ (mixed >> 15)) * 0x2C1B3C6D & 0xFFFFFFFF
    return (mixed >> 8).float() / 2**24
