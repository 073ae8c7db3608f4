"""A tagger with a conditional random field (CRF) over the positions that have labels."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from regard.encoder._base import Encoder
from regard.layers.linear_chain import LinearChain
from regard.model._base import Model
from regard.stem._base import Stem
from regard.types import Batch, LossSum

__all__ = ["CrfTagger"]


class CrfTagger(Model):
    """p(all tags | input) is a linear chain over W h_t + b (Huang, Xu and Yu 2015; Lample et al. 2016)."""

    def __init__(self, stem: Stem, encoder: Encoder, labels: int, head_dropout: float = 0.1):
        super().__init__()
        self.stem, self.encoder = stem, encoder
        self.dropout = nn.Dropout(head_dropout)
        self.head = nn.Linear(encoder.width, labels)
        self.chain = LinearChain(labels)

    def forward(self, source: Shaped[Tensor, "B *input"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S L"]:
        """The emission scores of every label at every position."""
        return self.head(self.dropout(self.encoder(*self.stem(source, mask)).states))

    def decide(
        self, logits: Float[Tensor, "B S L"], labelled: Bool[Tensor, "B S"]
    ) -> tuple[Int[Tensor, "B S"], Float[Tensor, "B S"]]:
        """The most probable label sequence, and the marginal probability of each of its labels."""
        order, mask = _compacted(labelled)
        emissions = logits.float().gather(1, order[..., None].expand(-1, -1, logits.shape[2]))
        labels = self.chain.best(emissions, mask)
        sure = self.chain.marginals(emissions, mask).gather(2, labels[..., None])[..., 0]
        none = logits.new_zeros(labelled.shape)
        return none.long().scatter(1, order, labels), none.float().scatter(1, order, sure)

    def loss(self, batch: Batch) -> LossSum:
        memory = self.encoder(*self.stem(batch.source, batch.source_mask))
        logits = self.head(self.dropout(memory.states)).float()
        order, mask = _compacted(batch.target_mask)
        with torch.autocast(logits.device.type, enabled=False):
            emissions = logits.gather(1, order[..., None].expand(-1, -1, logits.shape[2]))
            total = -self.chain.log_probability(emissions, batch.target.gather(1, order), mask).sum()
        return LossSum(self.with_ponder_cost(total, memory.ponder_cost), batch.units)


def _compacted(labelled: Tensor) -> tuple[Tensor, Tensor]:
    """The labelled positions moved to the front: where each comes from, and which are real; as long as the longest."""
    order = (~labelled).int().argsort(dim=1, stable=True)[:, : max(1, int(labelled.sum(1).max()))]
    return order, labelled.gather(1, order)
