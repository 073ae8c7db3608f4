"""Trains the small networks of experiments with Adam, and reports progress."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.lab._experiment import Setting


def counter(setting: Setting, total: int, what: str = "training") -> Callable[[], None]:
    """A function to call after every step, which reports progress from time to time."""
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
    """Trains with Adam and clipped gradients; `loss` makes its own batches. Returns the number of steps.

    The learning rate rises for `warmup` steps and then decays to zero; `enough` may stop early.
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
                advance()  # skipped steps count as done
            return step + 1
    return steps
