"""A classifier: a stem and an encoder read, their states become one vector, and that one becomes a label."""

from __future__ import annotations

from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn
from torch.nn import functional as F

from regard.layers.pooling import Pooling
from regard.types import Batch, LossSum

__all__ = ["Classifier"]


class Classifier(nn.Module):
    """p(label | input) = softmax(W pool(states) + b)."""

    def __init__(
        self,
        stem: nn.Module,
        encoder: nn.Module,
        labels: int,
        pooling: str = "mean",
        head_dropout: float = 0.1,
        label_smoothing: float = 0.0,
    ):
        super().__init__()
        self.stem, self.encoder = stem, encoder
        self.pooling = Pooling(pooling)
        self.dropout = nn.Dropout(head_dropout)
        self.head = nn.Linear(encoder.width, labels)  # type: ignore[arg-type]
        self.label_smoothing = label_smoothing

    def forward(self, source: Shaped[Tensor, "B *input"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B L"]:
        """The logits of the labels."""
        return self.head(self.dropout(self.pooling(self.encoder(*self.stem(source, mask)))))

    def loss(self, batch: Batch) -> LossSum:
        memory = self.encoder(*self.stem(batch.source, batch.source_mask))
        logits = self.head(self.dropout(self.pooling(memory))).float()
        # What is validated is the likelihood alone.
        smoothing = self.label_smoothing if self.training else 0.0
        total = F.cross_entropy(logits, batch.target[:, 0], label_smoothing=smoothing, reduction="sum")
        if memory.cost is not None and self.training:
            total = total + memory.cost.sum()
        return LossSum(total, batch.units)
