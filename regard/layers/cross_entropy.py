"""The loss of predicting tokens: label-smoothed cross-entropy, summed over the real ones (Vaswani et al. 2017, 5.4)."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from regard.types import PAD


def token_loss(logits: Float[Tensor, "B T V"], wanted: Int[Tensor, "B T"], smoothing: float = 0.0) -> Float[Tensor, ""]:
    """(1 - s) * -log p(wanted) + s * mean over the vocabulary of -log p, summed over positions that are not padding."""
    return F.cross_entropy(
        logits.flatten(0, 1).float(), wanted.flatten(), ignore_index=PAD, label_smoothing=smoothing, reduction="sum"
    )
