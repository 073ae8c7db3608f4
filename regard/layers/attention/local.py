"""Local attention (Luong, Pham and Manning 2015, 3.2): chooses a source position and attends to a window around it."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import UserError
from regard.layers.attend import as_boolean, weighted_sum
from regard.layers.attention._base import Attention, Context, Mask, Positions, ProjectedMemory, Query
from regard.layers.attention.multiplicative import Multiplicative

__all__ = ["Local"]

ALIGNMENTS = ("predictive", "monotonic")


class Local(Attention):
    """Attends to [p_t - D, p_t + D], where p_t = S sigmoid(v^T tanh(W h_t)) (predictive) or p_t = t (monotonic).

    Predictive weights also fall off like a Gaussian of standard deviation D / 2 around p_t. S is the source length.
    """

    def __init__(
        self,
        width: int,
        memory_width: int = 0,
        score: str = "general",
        window: int = 10,
        alignment: str = "predictive",
    ):
        super().__init__()
        if alignment not in ALIGNMENTS:
            raise UserError(f"model.attention: no alignment '{alignment}'; use {' or '.join(ALIGNMENTS)}")
        self.match = Multiplicative(width, memory_width, score)
        self.context, self.window = self.match.context, window
        guess = (nn.Linear(width, width, bias=False), nn.Tanh(), nn.Linear(width, 1, bias=False))
        self.place = nn.Sequential(*guess) if alignment == "predictive" else None

    def project_memory(self, memory: Float[Tensor, "B S M"]) -> ProjectedMemory:
        return self.match.project_memory(memory)

    def attend(
        self, query: Query, projected: ProjectedMemory, mask: Mask = None, positions: Positions = None
    ) -> Context:
        scores = self.match.scores(query, projected)
        source = torch.arange(scores.shape[-1], device=scores.device)
        visible = torch.ones_like(source, dtype=torch.bool) if mask is None else as_boolean(mask)
        lengths = visible.sum(-1, keepdim=True)
        if self.place is None:
            if positions is None:
                positions = torch.arange(query.shape[1], device=query.device)
            # The paper's p_t = t leaves the source where the translation is longer; here it stops at the last position.
            centre = torch.minimum(positions[:, None], (lengths - 1).clamp(min=0)).float()
        else:
            centre = lengths * torch.sigmoid(self.place(query).float())
            # The paper multiplies the weights by the Gaussian, so that they no longer sum to one. Adding its logarithm
            # to the scores has the same effect and keeps the sum.
            scores = scores - (source - centre) ** 2 / (2 * (self.window / 2) ** 2)
        near = (source - centre).abs() <= self.window
        return weighted_sum(scores, projected["value"], visible & near, self.observer)
