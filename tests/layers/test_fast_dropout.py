"""Our dropout on a CPU does what PyTorch's does."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import regard
from regard.assemble import build_model
from regard.layers.fast_dropout import FastDropout as Dropout
from regard.layers.fast_dropout import replace_dropouts

SHAPE = (40, 50, 101)  # not a multiple of four


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_it_drops_that_share_and_keeps_the_mean(p):
    torch.manual_seed(0)
    y = Dropout(p)(torch.ones(SHAPE, dtype=torch.float64))
    zero, kept = y[y == 0], y[y != 0]
    deviation = (p * (1 - p) / y.numel()) ** 0.5
    assert abs(len(zero) / y.numel() - p) < 5 * deviation
    assert kept.unique().numel() == 1 and abs(kept[0] * (1 - p) - 1) < 1e-4
    assert abs(y.mean() - 1) < 5 * deviation / (1 - p)


def test_activations_are_dropped_independently():
    """Also the four that share one random number, and the same one in two calls."""
    torch.manual_seed(0)
    p, dropout = 0.5, Dropout(0.5)
    first, second = (dropout(torch.ones(400_000)) == 0 for _ in range(2))
    pairs = [(first[i::4], first[j::4]) for i in range(4) for j in range(i)] + [(first, second)]
    for a, b in pairs:
        assert abs((a & b).float().mean() - p * p) < 5 * (p * p * (1 - p * p) / len(a)) ** 0.5


def test_the_gradient_has_the_same_mask():
    x = torch.randn(SHAPE, requires_grad=True)
    y = Dropout(0.3)(x)
    y.sum().backward()
    torch.testing.assert_close(x.grad * x, y)


def test_the_seed_decides():
    x = torch.ones(SHAPE)
    results = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        results.append(Dropout(0.1)(x))
    assert results[0].equal(results[1]) and not results[0].equal(results[2])


@pytest.mark.parametrize("p, training", [(0.0, True), (0.4, False)])
def test_it_does_nothing_outside_training_and_with_p_0(p, training):
    x = torch.randn(SHAPE)
    assert Dropout(p).train(training)(x).equal(x)


def test_all_is_dropped_with_p_1():
    assert Dropout(1.0)(torch.ones(SHAPE)).equal(nn.Dropout(1.0)(torch.ones(SHAPE)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_layout_and_type_are_kept(dtype):
    x = torch.randn(7, 5, 3, dtype=dtype).transpose(0, 2)
    y = Dropout(0.5)(x)
    assert (y.dtype, y.shape) == (x.dtype, x.shape)
    torch.testing.assert_close(y[y != 0], 2 * x[y != 0])


def test_every_dropout_of_a_model_is_replaced():
    model = build_model({"preset": "tiny", "dropout": 0.2}, 50).eval()
    before = [name for name, module in model.named_modules() if isinstance(module, nn.Dropout)]
    replace_dropouts(model)
    after = {name: module for name, module in model.named_modules() if isinstance(module, nn.Dropout)}
    assert list(after) == before and any(module.p == 0.2 for module in after.values())
    assert all(type(module) is Dropout and not module.training for module in after.values())


def test_a_run_on_a_cpu_trains_with_it(tmp_path, monkeypatch):
    replaced = []
    monkeypatch.setattr("regard.runs.setup.replace_dropouts", lambda model: replaced.append(replace_dropouts(model)))
    regard.train("road-transformer", tiny=True, steps=1, device="cpu", out=tmp_path / "run", quiet=True)
    assert any(type(module) is Dropout for model in replaced for module in model.modules())
