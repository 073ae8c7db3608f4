"""AdamW, and an exponential moving average (EMA) of the weights it trains."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from regard.training.placement import Placement

if TYPE_CHECKING:
    from regard.config import Training


def adam_w(parameters: list[nn.Parameter], settings: Training, device: torch.device) -> torch.optim.AdamW:
    """AdamW, fused where there is such a kernel. Gains and biases (1-D) have no weight decay."""
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": settings.weight_decay},
        {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=settings.learning_rate,
        betas=(settings.beta1, settings.beta2),
        eps=settings.epsilon,
        fused=device.type in ("cpu", "cuda"),
    )


class WeightAverage:
    """Exponential moving average of the trained weights; empty with a decay of 0."""

    def __init__(self, placement: Placement, decay: float) -> None:
        self._placement, self._decay = placement, decay
        self.weights: dict[str, Tensor] = {}
        if decay:
            self.weights = {name: p.detach().clone() for name, p in placement.trained.items()}

    def update(self, step: int) -> None:
        if not self.weights:
            return
        # a shorter memory at first, or the initial weights would count for 1 / (1 - decay) steps
        decay = min(self._decay, (1 + step) / (10 + step))
        local = self._placement.local
        with torch.no_grad():
            averages = [local(tensor) for tensor in self.weights.values()]
            trained = [local(tensor) for tensor in self._placement.trained.values()]
            torch._foreach_lerp_(averages, trained, 1 - decay)
