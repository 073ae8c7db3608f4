"""Adaptive computation time (Graves 2016), for each position by itself (Dehghani et al. 2019, 2.2).

The caller provides the transition of a step; this decides how many steps each position takes.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import UserError
from regard.layers.observable import Observable

MAX_STEPS = 128
"""Steps need no weights of their own, so unlike layers their number is not bounded by the weight file."""


def check_steps(steps: int, where: str) -> None:
    if not 1 <= steps <= MAX_STEPS:
        raise UserError(f"{where}.layers: a universal Transformer takes 1 to {MAX_STEPS} steps, given {steps}")


class Halting(Observable):
    """A position halts at the first step N at which p_1 + .. + p_N reaches 1 - epsilon, where p_n = sigmoid(w s_n + b).

    The output is the mean of its states s_1 .. s_N, weighted by p_1 .. p_{N-1} and the remainder R = 1 - their sum.
    N + R is the ponder time. Reports "ponder", (B, T, 1), and "shares", (B, T, steps), the weight of each step in the
    mean, to its observer.
    """

    def __init__(self, width: int, epsilon: float = 0.01):
        super().__init__()
        self.epsilon = epsilon
        self.judge = nn.Linear(width, 1)
        nn.init.xavier_uniform_(self.judge.weight)
        nn.init.ones_(self.judge.bias)  # as in both papers: initially a position halts after about two steps

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        transition: Callable[[Tensor, int], Tensor],
        most: int,
        mask: Bool[Tensor, "B T"] | None = None,
        early: bool = False,
    ) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B T"]]:
        """The mean state and the ponder time of each position after at most `most` steps of `transition(x, step)`.

        At padding both are zero. `early` stops when all positions have halted, which does not change the result.
        """
        running = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if mask is None else mask
        spent, ponder = torch.zeros(2, *x.shape[:2], device=x.device)
        mean = torch.zeros_like(x)
        shares = []
        for step in range(most):
            x = torch.where(running[..., None], transition(x, step), x)  # halted positions stay as they are
            # From the state after the step (Graves, eq. 6); the Universal Transformer's authors use the one before it,
            # which judges the first step before it has attended to anything.
            probability = torch.sigmoid(self.judge(x)[..., 0].float())
            # The last step takes the remainder, so that the shares sum to one (Graves, eq. 8); theirs do not.
            halts = running & (spent + probability >= 1 - self.epsilon) if step < most - 1 else running
            share = torch.where(halts, 1 - spent, probability * running)
            mean = mean + share[..., None].to(x.dtype) * x
            ponder = ponder + running + torch.where(halts, share, 0.0)
            spent = spent + share
            running = running & ~halts
            shares.append(share)
            if early and not running.any():
                break
        if self.observer:
            self.observer("ponder", ponder[..., None])
            self.observer("shares", F.pad(torch.stack(shares, -1), (0, most - len(shares))))
        return mean, ponder
