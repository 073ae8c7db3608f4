"""A tagger: stem, encoder, and a linear layer over the labels at every position."""

from __future__ import annotations

from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn
from torch.nn import functional as F

from regard.encoder._base import Encoder
from regard.model._base import Model
from regard.stem._base import Stem
from regard.types import Batch, LossSum

__all__ = ["Tagger"]


class Tagger(Model):
    """p(tag_t | input) = softmax(W h_t + b), each position by itself. The stem must return one vector per position."""

    def __init__(
        self,
        stem: Stem,
        encoder: Encoder,
        labels: int,
        head_dropout: float = 0.1,
        label_smoothing: float = 0.0,
    ):
        super().__init__()
        self.stem, self.encoder = stem, encoder
        self.dropout = nn.Dropout(head_dropout)
        self.head = nn.Linear(encoder.width, labels)
        self.label_smoothing = label_smoothing

    def forward(self, source: Shaped[Tensor, "B *input"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S L"]:
        """The logits of the labels at every position."""
        return self.head(self.dropout(self.encoder(*self.stem(source, mask)).states))

    def decide(
        self, logits: Float[Tensor, "B S L"], labelled: Bool[Tensor, "B S"]
    ) -> tuple[Int[Tensor, "B S"], Float[Tensor, "B S"]]:
        """The label of each position, and its probability."""
        probability, label = logits.float().softmax(-1).max(-1)
        return label, probability

    def loss(self, batch: Batch) -> LossSum:
        memory = self.encoder(*self.stem(batch.source, batch.source_mask))
        logits = self.head(self.dropout(memory.states[:, : batch.target.shape[1]])).float()
        each = F.cross_entropy(
            logits.flatten(0, 1), batch.target.flatten(), label_smoothing=self.label_smoothing, reduction="none"
        )
        total = each.masked_fill(~batch.target_mask.flatten(), 0.0).sum()
        return LossSum(self.with_ponder_cost(total, memory.ponder_cost), batch.units)
