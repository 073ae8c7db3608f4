"""Sequence to sequence: a stem and an encoder read, a decoder writes. Which ones, it does not know."""

from __future__ import annotations

from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from regard.decoder._base import Decoder
from regard.errors import UserError
from regard.layers.cross_entropy import projected_loss
from regard.layers.embedding import TokenEmbedding
from regard.layers.position.shifted import Shifted, shift_together
from regard.types import Batch, LossSum, Memory

__all__ = ["Seq2Seq"]


class Seq2Seq(nn.Module):
    """p(target | source). With `share` both languages, which then have one vocabulary, use the same embedding table."""

    def __init__(
        self, stem: nn.Module, encoder: nn.Module, decoder: Decoder, share: bool = True, label_smoothing: float = 0.0
    ):
        super().__init__()
        self.stem, self.encoder, self.decoder = stem, encoder, decoder
        self.label_smoothing = label_smoothing
        if share and isinstance(source := getattr(stem, "embedding", None), TokenEmbedding):
            if source.table.weight.shape != decoder.embedding.table.weight.shape:
                raise UserError(
                    "model: to share one embedding table, stem and decoder need equal embedding widths; "
                    "make them equal or set share = false"
                )
            decoder.embedding.table = source.table

    @property
    def recordable(self) -> bool:
        """Whether a step of training is the same work for all batches of a shape, to which rows of padding add nothing:
        then it can be recorded (training/recorded.py). An offset that the host draws would be recorded with it."""
        parts = (self.stem, self.encoder, self.decoder)
        return all(getattr(part, "recordable", False) for part in parts) and not any(
            isinstance(module, Shifted) for module in self.modules()
        )

    def encode(self, source: Shaped[Tensor, "B *input"], mask: Bool[Tensor, "B S"]) -> Memory:
        return self.encoder(*self.stem(source, mask))

    def forward(
        self, source: Shaped[Tensor, "B *input"], mask: Bool[Tensor, "B S"], target: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """The logits of each next token, given the true ones before it (teacher forcing)."""
        state = self.decoder.start(self.encode(source, mask), rows=1, capacity=0)
        return self.decoder.step(target, state)[0]

    def loss(self, batch: Batch) -> LossSum:
        if self.training:
            shift_together(self)
        memory = self.encode(batch.source, batch.source_mask)
        state = self.decoder.start(memory, rows=1, capacity=0)
        hidden, state = self.decoder.advance(batch.target[:, :-1], state)
        total = projected_loss(hidden, self.decoder.output_weight(), batch.target[:, 1:], self.label_smoothing)
        if self.training:  # what is validated is the likelihood alone
            total = sum((cost.sum() for cost in (memory.cost, state.cost) if cost is not None), total)
        return LossSum(total, batch.units)
