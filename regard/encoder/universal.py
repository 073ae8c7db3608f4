"""The Universal Transformer's encoder (Dehghani et al. 2019, 2.1): one layer, applied several times."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard import registry
from regard.encoder._base import Encoder
from regard.encoder.transformer import EncoderLayer
from regard.layers.attention._base import build_attention
from regard.layers.feed_forward import FeedForward
from regard.layers.halting import Halting, check_steps
from regard.layers.observe_jointly import observe_jointly
from regard.layers.position.sinusoidal import Sinusoidal
from regard.layers.residual import Residual, last_norm
from regard.types import Memory

__all__ = ["UniversalEncoder"]


class UniversalEncoder(Encoder):
    """H^t = layer(H^{t-1} + P^t), with the same layer at every step t. P^t encodes the position and the step.

    `layers` is the maximum number of steps. With `halting` each position takes as many of them as it needs, and the
    sum of their ponder times, weighted by `ponder_cost`, is added to the training loss.
    """

    adds_own_positions: ClassVar[bool] = True  # at every step

    def __init__(
        self,
        width: int = 512,
        layers: int = 6,
        heads: int = 8,
        feed_forward: int = 2048,
        dropout: float = 0.1,
        norm: str = "post",
        activation: str = "relu",
        position: str | dict[str, object] = "sinusoidal",
        halting: bool = True,
        ponder_cost: float = 0.01,
        epsilon: float = 0.01,
        attention: str | dict[str, Any] = "multi_head",
    ):
        super().__init__()
        check_steps(layers, "model.encoder")
        self.width, self.steps, self.ponder_cost = width, layers, ponder_cost
        self.position = registry.build("layers/position", position, "model.position", width=width)
        self.clock = Sinusoidal(width)
        self.layer = EncoderLayer(
            build_attention(attention, "model.encoder.attention", width, width, heads),
            FeedForward(width, feed_forward, activation),
            lambda: Residual(width, dropout, norm),
        )
        self.halting = Halting(width, epsilon) if halting else None
        self.norm = last_norm(width, norm)

    def forward(self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Memory:
        positions = self.position(torch.arange(x.shape[1], device=x.device))
        times = self.clock(torch.arange(1, self.steps + 1, device=x.device))

        def transition(x: Tensor, step: int) -> Tensor:
            return self.layer(x + (positions + times[step]).to(x.dtype), mask[:, None, :])

        cost = None
        with observe_jointly(self.layer.modules(), axis=1):  # the heads of all steps side by side
            if self.halting is None:
                for step in range(self.steps):
                    x = transition(x, step)
            else:
                # Checking whether all positions have halted would make training wait for the GPU.
                early = not self.training or x.device.type == "cpu"
                x, ponder = self.halting(x, transition, self.steps, mask, early)
                cost = self.ponder_cost * ponder.sum(1)
        return Memory(self.norm(x), mask, ponder_cost=cost)
