"""A language model: a decoder without a source."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Float, Int
from torch import Tensor

from regard.decoder._base import Decoder
from regard.layers.cross_entropy import projected_loss
from regard.model._base import Model
from regard.states import empty_memory
from regard.types import Batch, LossSum

__all__ = ["LanguageModel"]


class LanguageModel(Model):
    """p(text) = product over t of p(y_t | y_1 .. y_{t-1})."""

    tasks: ClassVar[tuple[str, ...]] = ("generate",)

    def __init__(self, decoder: Decoder, label_smoothing: float = 0.0):
        super().__init__()
        self.decoder = decoder
        self.label_smoothing = label_smoothing

    def forward(self, target: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """The logits of each next token, given the reference before it (teacher forcing)."""
        state = self.decoder.start(empty_memory(len(target), target.device), beams=1, capacity=0)
        return self.decoder.step(target, state)[0]

    def loss(self, batch: Batch) -> LossSum:
        state = self.decoder.start(empty_memory(len(batch), batch.target.device), beams=1, capacity=0)
        hidden, state = self.decoder.advance(batch.target[:, :-1], state)
        weight, bias = self.decoder.output_weight(), self.decoder.output_bias
        total = projected_loss(hidden, weight, batch.target[:, 1:], self.label_smoothing, bias)
        return LossSum(self.with_ponder_cost(total, state.ponder_cost), batch.units)
