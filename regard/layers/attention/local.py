"""Local attention (Luong, Pham and Manning 2015, 3.2): first choose a place in the source, then look only around it."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import UserError
from regard.layers.attend import mix
from regard.layers.attention._base import Attention, Context, Kept, Mask, Places, Query
from regard.layers.attention.multiplicative import Multiplicative

__all__ = ["Local"]

ALIGNMENTS = ("predictive", "monotonic")


class Local(Attention):
    """Looks at [p_t - D, p_t + D], where p_t = S sigmoid(v^T tanh(W h_t)) (predictive) or p_t = t (monotonic).

    Predictive weights also fall off like a Gaussian of deviation D / 2 around p_t. S is the sentence's own length.
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

    def remember(self, memory: Float[Tensor, "B S M"]) -> Kept:
        return self.match.remember(memory)

    def recall(self, query: Query, kept: Kept, mask: Mask = None, places: Places = None) -> Context:
        scores = self.match.scores(query, kept["key"])
        positions = torch.arange(scores.shape[-1], device=scores.device)
        seen = torch.ones_like(positions, dtype=torch.bool) if mask is None else mask
        lengths = seen.sum(-1, keepdim=True)
        if self.place is None:
            if places is None:
                places = torch.arange(query.shape[1], device=query.device)
            # The paper's p_t = t would leave the source behind where the translation is longer: it stays at its end.
            centre = torch.minimum(places[:, None], (lengths - 1).clamp(min=0)).float()
        else:
            centre = lengths * torch.sigmoid(self.place(query).float())
            # The paper multiplies the weights by the Gaussian, after which they no longer sum to one. Added to the
            # scores as its logarithm it does the same and they do.
            scores = scores - (positions - centre) ** 2 / (2 * (self.window / 2) ** 2)
        near = (positions - centre).abs() <= self.window
        return mix(scores, kept["value"], seen & near, self.watcher)
