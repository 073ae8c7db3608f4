"""How an experiment trains a small network: so many steps of Adam, counted for whoever waits."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.lab._experiment import Setting


def counter(setting: Setting, total: int, what: str = "training") -> Callable[[], None]:
    """Called after every step, it tells now and then how many are done."""
    done = 0

    def advance() -> None:
        nonlocal done
        done += 1
        if done % 10 == 0 or done == total:
            setting.progress(done, total, what)

    return advance


def learn(
    network: nn.Module,
    loss: Callable[[], Tensor],
    steps: int,
    rate: float,
    advance: Callable[[], None],
    warmup: int = 0,
    enough: Callable[[int], bool] = lambda done: False,
) -> int:
    """Trains with Adam and clipped gradients; `loss` makes its own batches. Gives the number of steps that were taken.

    The rate rises for `warmup` steps and then falls to nothing, and `enough` may end it early.
    """
    network.train()
    optimiser = torch.optim.Adam(network.parameters(), lr=rate)
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = rate * min((step + 1) / (warmup + 1), 1 - step / steps)
        optimiser.zero_grad()
        loss().backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        advance()
        if enough(step + 1):
            for _ in range(step + 1, steps):
                advance()  # what need not be done counts as done
            return step + 1
    return steps
