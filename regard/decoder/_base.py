"""The interface of every decoder. A search uses `start` and `step`; a loss uses `advance` and `output_weight`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import UserError
from regard.layers.embedding import TokenEmbedding
from regard.types import Memory, State

_WIDE = hasattr(torch.ops.aten.mm, "dtype")
"""Whether `mm` takes an output type; older versions of torch do not."""


class Decoder(nn.Module, ABC):
    """Target ids in, hidden states out, then logits. `tie` uses the embedding table as output projection."""

    cuda_graphable: ClassVar[bool] = False
    """True if training does the same work for every batch of one shape and never waits for the GPU."""

    def __init__(self, embedding: TokenEmbedding, width: int, tie: bool, output_bias: bool = False):
        super().__init__()
        own = embedding.table.embedding_dim
        if tie and own != width:
            raise UserError(
                f"model.decoder.tie: embedding ({own}) and output ({width}) differ in width; use tie = false"
            )
        self.embedding = embedding
        self.output = None if tie else nn.Linear(width, embedding.table.num_embeddings, bias=False)
        self.output_bias = nn.Parameter(torch.zeros(embedding.table.num_embeddings)) if output_bias else None
        self.projection: nn.Module | None = None
        """A faster output projection for inference (layers/fast_linear.py)."""

    @abstractmethod
    def start(self, memory: Memory, beams: int, capacity: int) -> State: ...

    @abstractmethod
    def advance(self, ids: Int[Tensor, "R T"], state: State) -> tuple[Float[Tensor, "R T D"], State]: ...

    def output_weight(self) -> Float[Tensor, "V D"]:
        return self.embedding.table.weight if self.output is None else self.output.weight

    def project(self, hidden: Float[Tensor, "R T D"]) -> Float[Tensor, "R T V"]:
        if self.projection:
            return self.projection(hidden)
        weight, bias = self.output_weight(), self.output_bias
        if _WIDE and hidden.is_cuda and hidden.dtype == weight.dtype == torch.bfloat16 and not torch.is_grad_enabled():
            # The sums are float32 anyway: keeping them saves a rounding, and a cast for the softmax.
            logits = torch.mm(hidden.flatten(0, 1), weight.T, out_dtype=torch.float32).unflatten(0, hidden.shape[:2])
            return logits if bias is None else logits.add_(bias)
        return F.linear(hidden, weight, bias)

    def step(self, ids: Int[Tensor, "R T"], state: State) -> tuple[Float[Tensor, "R T V"], State]:
        hidden, state = self.advance(ids, state)
        return self.project(hidden), state

    def step_last(self, ids: Int[Tensor, "R T"], state: State) -> tuple[Float[Tensor, "R 1 V"], State]:
        """As `step`, with the logits of the last position alone: a long prompt has many, over a large vocabulary."""
        hidden, state = self.advance(ids, state)
        return self.project(hidden[:, -1:]), state
