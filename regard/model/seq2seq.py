"""Sequence to sequence: stem, encoder and decoder, of any kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from regard.decoder._base import Decoder
from regard.encoder._base import Encoder
from regard.errors import UserError
from regard.layers.cross_entropy import projected_loss
from regard.model._base import Model
from regard.types import Batch, LossSum, Memory

if TYPE_CHECKING:
    from regard.stem._base import Stem

__all__ = ["Seq2Seq"]


class Seq2Seq(Model):
    """p(target | source). With `share`, source and target have one vocabulary and one embedding table."""

    tasks: ClassVar[tuple[str, ...]] = ("translate", "caption", "transcribe")

    def __init__(
        self, stem: Stem, encoder: Encoder, decoder: Decoder, share: bool = True, label_smoothing: float = 0.0
    ):
        super().__init__()
        self.stem, self.encoder, self.decoder = stem, encoder, decoder
        self.label_smoothing = label_smoothing
        if share and (source := stem.token_embedding) is not None:
            if source.table.weight.shape != decoder.embedding.table.weight.shape:
                raise UserError("model: stem and decoder differ in embedding width; make it equal or set share = false")
            decoder.embedding.table = source.table

    @property
    def cuda_graphable(self) -> bool:
        parts = (module for module in self.modules() if module is not self)
        return all(getattr(part, "cuda_graphable", True) for part in parts)

    def encode(self, source: Shaped[Tensor, "B *input"], mask: Bool[Tensor, "B S"]) -> Memory:
        return self.encoder(*self.stem(source, mask))

    def forward(
        self, source: Shaped[Tensor, "B *input"], mask: Bool[Tensor, "B S"], target: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """The logits of each next token, given the reference before it (teacher forcing)."""
        state = self.decoder.start(self.encode(source, mask), beams=1, capacity=0)
        return self.decoder.step(target, state)[0]

    def loss(self, batch: Batch) -> LossSum:
        if self.training:
            from regard.layers.position.shifted import shift_together

            shift_together(self)
        memory = self.encode(batch.source, batch.source_mask)
        state = self.decoder.start(memory, beams=1, capacity=0)
        hidden, state = self.decoder.advance(batch.target[:, :-1], state)
        weight, bias = self.decoder.output_weight(), self.decoder.output_bias
        total = projected_loss(hidden, weight, batch.target[:, 1:], self.label_smoothing, bias)
        return LossSum(self.with_ponder_cost(total, memory.ponder_cost, state.ponder_cost), batch.units)
