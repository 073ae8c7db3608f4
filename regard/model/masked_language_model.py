"""A masked language model (Devlin et al. 2019): some tokens are hidden, and the others tell which they were."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.errors import UserError
from regard.layers.cross_entropy import projected_loss
from regard.layers.embedding import TokenEmbedding
from regard.types import END, PAD, UNKNOWN, Batch, LossSum

__all__ = ["MaskedLanguageModel"]

MASK = UNKNOWN
"""What stands where a token is hidden. BERT has an id of its own for it; UNKNOWN means the same, a word one does not
know, and every tokenizer has it, so that what was learnt here fits any other model with the same tokenizer."""
REPLACED, KEPT = 0.1, 0.1


class MaskedLanguageModel(nn.Module):
    """logits = norm(gelu(W h + b)) E^T + c, where E is the table of the stem.

    In training 8 of 10 chosen tokens are hidden, one is replaced by any other and one stays, so that a state must be
    right for its own token too: text that is read later hides none. Out of training all chosen are hidden, and the
    choice depends on the text alone, so that losses can be compared.
    """

    def __init__(self, stem: nn.Module, encoder: nn.Module, label_smoothing: float = 0.0):
        super().__init__()
        embedding = getattr(stem, "embedding", None)
        if not isinstance(embedding, TokenEmbedding):
            raise UserError("model.stem: words can be hidden only in text; use tokens")
        self.stem, self.encoder = stem, encoder
        vocabulary, width = embedding.table.weight.shape
        self.dense = nn.Linear(encoder.width, width)  # type: ignore[arg-type]
        self.norm = nn.LayerNorm(width)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        self.label_smoothing = label_smoothing

    @property
    def table(self) -> Tensor:
        return self.stem.embedding.table.weight  # type: ignore[union-attr, return-value]

    def forward(
        self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"], places: Int[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B T V"]:
        """The logits of the token at every position, the hidden ones (MASK) too, or only at some places of each row."""
        return self._told(self.encoder(*self.stem(source, mask)).states, places) @ self.table.T + self.bias

    def _told(self, states: Tensor, places: Tensor | None) -> Tensor:
        if places is not None:
            states = states.gather(1, places[..., None].expand(-1, -1, states.shape[2]))
        return self.norm(nn.functional.gelu(self.dense(states)))

    def hide(
        self, source: Int[Tensor, "B S"], wanted: Bool[Tensor, "B T"]
    ) -> tuple[Int[Tensor, "B S"], Int[Tensor, "B T"], Int[Tensor, "B T"]]:
        """The source with as many tokens hidden as `wanted` is True; where each is, and which it was (PAD: none)."""
        order = torch.rand(source.shape, device=source.device) if self.training else _by_text(source)
        places = order.masked_fill(source <= END, 2.0).topk(wanted.shape[1], largest=False).indices  # no special ones
        was = source.gather(1, places).masked_fill(~wanted, PAD)
        now = torch.full_like(was, MASK)
        if self.training:
            draw = torch.rand(was.shape, device=was.device)
            other = torch.randint(END + 1, len(self.table), was.shape, device=was.device)
            now = torch.where(draw < KEPT, was, torch.where(draw < KEPT + REPLACED, other, now))
        return source.scatter(1, places, torch.where(wanted, now, source.gather(1, places))), places, was

    def loss(self, batch: Batch) -> LossSum:
        """-log p of the hidden tokens; their number is that of the places wanted."""
        source, places, was = self.hide(batch.source.masked_fill(~batch.source_mask, PAD), batch.target_mask)
        memory = self.encoder(*self.stem(source, batch.source_mask))
        told = self._told(memory.states, places)
        # A bias is a column more of the table, for an input that is always 1.
        told = torch.cat([told, torch.ones_like(told[..., :1])], -1)
        total = projected_loss(told, torch.cat([self.table, self.bias[:, None]], 1), was, self.label_smoothing)
        if memory.cost is not None and self.training:
            total = total + memory.cost.sum()
        return LossSum(total, batch.units)


def _by_text(source: Tensor) -> Tensor:
    """A number of 0..1 for each position that only the text and the place decide, whatever padding comes after."""
    places = torch.arange(1, source.shape[1] + 1, device=source.device)
    text = (source * places).sum(1, keepdim=True)  # padding is 0 and adds nothing
    mixed = text * 0x9E3779B1 + places * 0x85EBCA6B
    for _ in range(2):
        mixed = (mixed ^ (mixed >> 15)) * 0x2C1B3C6D & 0xFFFFFFFF
    return (mixed >> 8).float() / 2**24
