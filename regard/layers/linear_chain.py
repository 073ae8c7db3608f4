"""A linear-chain conditional random field (Lafferty, McCallum and Pereira 2001).

score(y) = start[y_1] + sum_t emission_t[y_t] + sum_t follows[y_{t-1}, y_t] + end[y_n]        p(y) = exp(score(y)) / Z

Positions may be padded on the right, which has no effect. An empty sequence has Z = 1.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

Emissions = Float[Tensor, "B T L"]


class LinearChain(nn.Module):
    """Scores of starting with a label, of transitions between labels, and of ending with one."""

    def __init__(self, labels: int):
        super().__init__()
        self.start = nn.Parameter(torch.zeros(labels))
        self.follows = nn.Parameter(torch.zeros(labels, labels))
        self.end = nn.Parameter(torch.zeros(labels))

    def log_probability(
        self, emissions: Emissions, labels: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B"]:
        """log p of these labels."""
        return self._score(emissions, labels, mask) - self._forward(emissions, mask)[1]

    def marginals(self, emissions: Emissions, mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T L"]:
        """The marginals p(y_t), by forward-backward (Rabiner 1989)."""
        forward, total = self._forward(emissions, mask)
        after = self.end.expand(len(emissions), -1)
        backward = [after]
        for t in range(emissions.shape[1] - 1, 0, -1):
            step = (self.follows + (emissions[:, t] + after)[:, None, :]).logsumexp(2)
            after = torch.where(mask[:, t, None], step, after)
            backward.append(after)
        found = (forward + torch.stack(backward[::-1], 1) - total[:, None, None]).exp()
        return found.masked_fill(~mask[..., None], 0.0)

    def best(self, emissions: Emissions, mask: Bool[Tensor, "B T"]) -> Int[Tensor, "B T"]:
        """The most probable label sequence (Viterbi 1967); 0 at padding."""
        rows = torch.arange(len(emissions), device=emissions.device)
        score = self.start + emissions[:, 0]
        came_from = []
        for t in range(1, emissions.shape[1]):
            step, origin = (score[:, :, None] + self.follows).max(1)
            real = mask[:, t, None]
            score = torch.where(real, step + emissions[:, t], score)
            came_from.append(torch.where(real, origin, torch.arange(score.shape[1], device=score.device)))
        label = (score + self.end).argmax(1)
        found = [label]
        for origin in reversed(came_from):
            label = origin[rows, label]
            found.append(label)
        return torch.stack(found[::-1], 1).masked_fill(~mask, 0)

    def _score(self, emissions: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        own = emissions.gather(2, labels[..., None])[..., 0].masked_fill(~mask, 0.0).sum(1)
        steps = self.follows[labels[:, :-1], labels[:, 1:]].masked_fill(~mask[:, 1:], 0.0).sum(1)
        last = labels.gather(1, mask.sum(1, keepdim=True).clamp(min=1) - 1)[:, 0]
        return (own + steps + self.start[labels[:, 0]] + self.end[last]) * mask[:, 0]

    def _forward(self, emissions: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """log of the summed weight of all paths to each label at each position, and log Z."""
        score = self.start + emissions[:, 0]
        scores = [score]
        for t in range(1, emissions.shape[1]):
            step = (score[:, :, None] + self.follows).logsumexp(1) + emissions[:, t]
            score = torch.where(mask[:, t, None], step, score)
            scores.append(score)
        return torch.stack(scores, 1), (score + self.end).logsumexp(1) * mask[:, 0]
