"""A classifier: stem, encoder, pooling to one vector, perhaps a dense layer, and a linear layer over the labels."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn
from torch.nn import functional as F

from regard.encoder._base import Encoder
from regard.errors import UserError
from regard.layers.feed_forward import build_activation
from regard.layers.mixing import Mixing
from regard.layers.pooling import Pooling
from regard.model._base import Model
from regard.stem._base import Stem
from regard.types import Batch, LossSum, Memory

__all__ = ["Classifier"]


class Classifier(Model):
    """p(label | input) = softmax(W pool(states) + b).

    With `head_activation` f it is softmax(W f(W_1 pool(states) + b_1) + b): BERT's head with tanh, where pooling is
    first (Devlin et al. 2019), DistilBERT's with relu.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classify",)

    def __init__(
        self,
        stem: Stem,
        encoder: Encoder,
        labels: int,
        pooling: str = "mean",
        head_activation: str = "none",
        head_dropout: float = 0.1,
        label_smoothing: float = 0.0,
        mixup: float = 0.0,
        cutmix: float = 0.0,
    ):
        super().__init__()
        self.stem, self.encoder = stem, encoder
        self.pooling = Pooling(pooling)
        if self.pooling.vectors > max(1, stem.prepended):
            raise UserError("model.pooling: first_two is for a stem with a class and a distillation token; use first")
        self.dense = nn.Linear(encoder.width, encoder.width) if head_activation != "none" else None
        self.activation = build_activation(head_activation) if self.dense is not None else nn.Identity()
        self.dropout = nn.Dropout(head_dropout)
        self.head = nn.Linear(self.pooling.vectors * encoder.width, labels)
        self.label_smoothing = label_smoothing
        self.mixing = Mixing(mixup, cutmix)

    def forward(self, source: Shaped[Tensor, "B *input"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B L"]:
        """The logits of the labels."""
        return self._logits(self.encoder(*self.stem(source, mask)))

    def _logits(self, memory: Memory) -> Float[Tensor, "B L"]:
        pooled = self.pooling(memory)
        if self.dense is not None:
            pooled = self.activation(self.dense(pooled))
        return self.head(self.dropout(pooled))

    def loss(self, batch: Batch) -> LossSum:
        # Validation measures the likelihood alone.
        smoothing = self.label_smoothing if self.training else 0.0
        mixed = self.mixing(batch.source) if self.training and self.mixing else None
        memory = self.encoder(*self.stem(batch.source if mixed is None else mixed.source, batch.source_mask))
        logits, labels = self._logits(memory).float(), batch.target[:, 0]
        total = F.cross_entropy(logits, labels, label_smoothing=smoothing, reduction="sum")
        if mixed is not None:
            others = F.cross_entropy(logits, labels[mixed.other], label_smoothing=smoothing, reduction="sum")
            total = mixed.share * total + (1 - mixed.share) * others
        return LossSum(self.with_ponder_cost(total, memory.ponder_cost), batch.units)
