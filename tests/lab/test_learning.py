"""Training takes the steps it reports, at the rates it reports."""

from __future__ import annotations

import torch
from torch import nn

from regard.lab._experiment import Setting
from regard.lab._learning import counter, learn


def line():
    torch.manual_seed(1)
    return nn.Linear(3, 1)


X, Y = torch.randn(16, 3, generator=torch.Generator().manual_seed(2)), torch.ones(16, 1)


def test_it_is_adam_with_a_warm_up_and_a_straight_way_down():
    ours, theirs = line(), line()
    assert learn(ours, lambda: (ours(X) - Y).square().mean(), 8, 0.1, lambda: None, warmup=3) == 8
    adam = torch.optim.Adam(theirs.parameters(), lr=0.1)
    for share in (1 / 4, 2 / 4, 3 / 4, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8):
        adam.param_groups[0]["lr"] = 0.1 * share
        adam.zero_grad()
        (theirs(X) - Y).square().mean().backward()
        nn.utils.clip_grad_norm_(theirs.parameters(), 1.0)
        adam.step()
    torch.testing.assert_close(ours.weight, theirs.weight)


def test_it_may_end_early_and_all_steps_are_counted():
    told = []
    network = line()
    advance = counter(Setting(progress=lambda *line: told.append(line)), 25)
    assert learn(network, lambda: network(X).mean(), 25, 0.1, advance, enough=lambda done: done == 7) == 7
    assert told == [(10, 25, "training"), (20, 25, "training"), (25, 25, "training")]
