"""Every call is captured under its module's name, and observers are restored, also after errors."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from regard.layers.capture import capture
from regard.layers.observable import Observable


class Doubling(Observable):
    """Tells its input and its output, and writes into its own tensor afterwards."""

    def forward(self, x: Tensor) -> Tensor:
        out = 2 * x
        if self.observer is not None:
            self.observer("given", x)
            self.observer("result", out)
        return out.add_(1)


def model() -> nn.Sequential:
    return nn.Sequential(Doubling(), nn.Sequential(nn.Identity(), Doubling()))


def test_names_order_and_values() -> None:
    net = model()
    with capture(net) as seen:
        net(torch.tensor([1.0]))
        net(torch.tensor([10.0]))
    assert set(seen) == {"0.given", "0.result", "1.1.given", "1.1.result"}
    # By hand: 1 -> 2 (+1) = 3 -> 6 (+1); 10 -> 20 (+1) = 21 -> 42 (+1). The +1 in place came after the telling.
    assert [t.item() for t in seen["0.result"]] == [2.0, 20.0]
    assert [t.item() for t in seen["1.1.given"]] == [3.0, 21.0]
    assert [t.item() for t in seen["1.1.result"]] == [6.0, 42.0]


def test_a_watched_model_itself_has_no_dot() -> None:
    net = Doubling()
    with capture(net) as seen:
        net(torch.ones(1))
    assert set(seen) == {"given", "result"}


def test_nothing_is_seen_outside_and_no_graph_is_kept() -> None:
    net = model()
    net(torch.ones(1))
    with capture(net) as seen:
        net(torch.ones(1, requires_grad=True))
    net(torch.ones(1))
    assert all(len(calls) == 1 and not calls[0].requires_grad for calls in seen.values())
    assert all(module.observer is None for module in net.modules() if isinstance(module, Observable))


def test_an_exception_takes_the_watchers_along() -> None:
    net = model()
    with pytest.raises(RuntimeError, match="inside"), capture(net):
        raise RuntimeError("inside")
    assert all(module.observer is None for module in net.modules() if isinstance(module, Observable))


def test_nested_captures_both_see_and_the_outer_goes_on() -> None:
    net = model()
    with capture(net) as outer:
        net(torch.tensor([1.0]))
        with capture(net[1]) as inner:
            net(torch.tensor([10.0]))
        net(torch.tensor([100.0]))
    assert [t.item() for t in outer["1.1.given"]] == [3.0, 21.0, 201.0]
    assert {name: [t.item() for t in calls] for name, calls in inner.items()} == {"1.given": [21.0], "1.result": [42.0]}


def test_a_module_used_twice_is_told_twice() -> None:
    shared = Doubling()
    net = nn.Sequential(shared, shared)
    with capture(net) as seen:
        net(torch.tensor([1.0]))
    assert [t.item() for t in seen["0.given"]] == [1.0, 3.0] and len(seen) == 2
