"""A language model: a decoder with nothing to look at but what was written before."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.decoder._base import Decoder
from regard.layers.cross_entropy import projected_loss
from regard.types import Batch, LossSum, nothing

__all__ = ["LanguageModel"]


class LanguageModel(nn.Module):
    """p(text) = product over t of p(y_t | y_1 .. y_{t-1})."""

    def __init__(self, decoder: Decoder, label_smoothing: float = 0.0):
        super().__init__()
        self.decoder = decoder
        self.label_smoothing = label_smoothing

    def forward(self, target: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """The logits of each next token, given the true ones before it."""
        state = self.decoder.start(nothing(len(target), target.device), rows=1, capacity=0)
        return self.decoder.step(target, state)[0]

    def loss(self, batch: Batch) -> LossSum:
        state = self.decoder.start(nothing(len(batch), batch.target.device), rows=1, capacity=0)
        hidden, state = self.decoder.advance(batch.target[:, :-1], state)
        total = projected_loss(hidden, self.decoder.output_weight(), batch.target[:, 1:], self.label_smoothing)
        if state.cost is not None and self.training:  # what is validated is the likelihood alone
            total = total + state.cost.sum()
        return LossSum(total, batch.units)
