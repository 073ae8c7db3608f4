"""Compiled layers, with a compiler that only counts calls."""

import warnings
from collections import Counter

import pytest
import torch

from regard.assemble import build_model
from regard.layers import compiling
from regard.layers.compile_layers import compile_layers

IDS = torch.tensor([[5, 6, 7]])
SEEN = torch.ones(1, 3, dtype=torch.bool)


@pytest.fixture
def compiled(monkeypatch):
    """How often each function was compiled, and how often what came of it was called."""
    made, called = Counter(), Counter()

    def compiler(function, **options):
        assert options == {"dynamic": True}
        made[function] += 1

        def fast(*arguments):
            called[function] += 1
            return function(*arguments)

        return fast

    monkeypatch.setattr(compiling.torch, "compile", compiler)
    monkeypatch.setattr(compiling, "active", False)
    with warnings.catch_warnings():
        yield made, called


@pytest.mark.parametrize("more", [{}, {"relative_position": "buckets", "gated": True, "norm_kind": "rms"}])
def test_each_layer_is_compiled_once_and_only_a_training_step_uses_it(compiled, more):
    made, called = compiled
    torch.manual_seed(0)
    model = build_model({"preset": "tiny", "dropout": 0.0, **more}, 20).train()
    before = model(IDS, SEEN, IDS)
    layers = [*model.encoder.layers, *model.decoder.layers]
    assert compile_layers(model) == len(layers) > 2
    assert compiling.active
    assert made == Counter(layer.forward for layer in layers)

    torch.testing.assert_close(model(IDS, SEEN, IDS), before)
    assert called == made
    with torch.no_grad():
        model(IDS, SEEN, IDS)
    model.eval()(IDS, SEEN, IDS)
    assert called == made
    model.train()(IDS, SEEN, IDS).sum().backward()
    assert called == made + made and all(p.grad is not None for p in layers[0].parameters())


def test_a_model_without_repeated_layers_stays_as_it_is(compiled):
    model = build_model({"preset": "tiny", "encoder": "recurrent", "decoder": "recurrent"}, 20)
    assert compile_layers(model) == 0 and not compiled[0]
