"""The other peer of training: what one writes in an hour, torch.nn.Transformer between an embedding and its transpose,
with the usual loss over all logits, under torch.compile as a whole."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.types import PAD, Batch


class TorchTransformer(nn.Module):
    """A Transformer of the same size; its weights are its own, as only time is compared."""

    def __init__(self, vocabulary: int, width: int, heads: int, layers: int, inner: int, smoothing: float):
        super().__init__()
        self.width, self.smoothing = width, smoothing
        self.table = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.table.weight, std=width**-0.5)
        self.positions = nn.Buffer(torch.randn(512, width))
        self.transformer = nn.Transformer(width, heads, layers, layers, inner, 0.1, batch_first=True)
        self.dropout = nn.Dropout(0.1)
        self.compiled = torch.compile(self.forward)

    def forward(self, source: Tensor, fed: Tensor, wanted: Tensor) -> Tensor:
        causal = nn.Transformer.generate_square_subsequent_mask(fed.shape[1], source.device, torch.float32)
        hidden = self.transformer(self._embed(source), self._embed(fed), tgt_mask=causal, tgt_is_causal=True)
        logits = F.linear(hidden, self.table.weight).float()
        return F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=PAD, label_smoothing=self.smoothing)

    def _embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.table(ids) * self.width**0.5 + self.positions[: ids.shape[1]])


def plain_loss(model: TorchTransformer, batch: Batch) -> Tensor:
    return model.compiled(batch.source, batch.target[:, :-1], batch.target[:, 1:])
