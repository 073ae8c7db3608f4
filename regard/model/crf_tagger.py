"""A tagger whose labels know their neighbours: a conditional random field over the wanted positions."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from regard.layers.linear_chain import LinearChain
from regard.types import Batch, LossSum

__all__ = ["CrfTagger"]


class CrfTagger(nn.Module):
    """p(all tags | input) is a linear chain over W h_t + b (Huang, Xu and Yu 2015; Lample et al. 2016)."""

    def __init__(self, stem: nn.Module, encoder: nn.Module, labels: int, head_dropout: float = 0.1):
        super().__init__()
        self.stem, self.encoder = stem, encoder
        self.dropout = nn.Dropout(head_dropout)
        self.head = nn.Linear(encoder.width, labels)  # type: ignore[arg-type]
        self.chain = LinearChain(labels)

    def forward(self, source: Shaped[Tensor, "B *input"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S L"]:
        """What each position says for each label, before its neighbours are asked."""
        return self.head(self.dropout(self.encoder(*self.stem(source, mask)).states))

    def decide(
        self, logits: Float[Tensor, "B S L"], wanted: Bool[Tensor, "B S"]
    ) -> tuple[Int[Tensor, "B S"], Float[Tensor, "B S"]]:
        """The likeliest labels all together, and how probable each of them is for itself."""
        order, mask = _together(wanted)
        emissions = logits.float().gather(1, order[..., None].expand(-1, -1, logits.shape[2]))
        labels = self.chain.best(emissions, mask)
        sure = self.chain.marginals(emissions, mask).gather(2, labels[..., None])[..., 0]
        none = logits.new_zeros(wanted.shape)
        return none.long().scatter(1, order, labels), none.float().scatter(1, order, sure)

    def loss(self, batch: Batch) -> LossSum:
        memory = self.encoder(*self.stem(batch.source, batch.source_mask))
        logits = self.head(self.dropout(memory.states)).float()
        order, mask = _together(batch.target_mask)
        with torch.autocast(logits.device.type, enabled=False):
            emissions = logits.gather(1, order[..., None].expand(-1, -1, logits.shape[2]))
            total = -self.chain.log_probability(emissions, batch.target.gather(1, order), mask).sum()
        if memory.cost is not None and self.training:
            total = total + memory.cost.sum()
        return LossSum(total, batch.units)


def _together(wanted: Tensor) -> tuple[Tensor, Tensor]:
    """The wanted positions side by side: where each comes from, and which are real; as long as the longest row."""
    order = (~wanted).int().argsort(dim=1, stable=True)[:, : max(1, int(wanted.sum(1).max()))]
    return order, wanted.gather(1, order)
