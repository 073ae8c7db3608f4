"""The five variants follow their formulas; the verdict needs both the speed-up and the depth."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

from regard.lab.add_and_norm import (
    ADD,
    NEITHER,
    NORM,
    POST,
    PRE,
    SIZES,
    WAYS,
    AddAndNorm,
    Reader,
    before,
    best,
    needed,
    steps_to,
)

EXPERIMENT = AddAndNorm()
RECIPE = SIZES["tiny"]
DEEP = RECIPE.depths[-1]


@pytest.fixture(scope="module")
def numbers(tiny):
    return tiny("add_and_norm").numbers


def changed(numbers, way, depth, right):
    made = copy.deepcopy(numbers)
    for curve in made["curves"]:
        if (curve["way"], curve["depth"]) == (way, depth):
            curve["right"] = right
    return made


@pytest.mark.parametrize("way", WAYS)
def test_a_layer_is_its_formula(way):
    """With torch's own attention, given the same weights."""
    reader = Reader(way, 1, RECIPE, seed=2)
    (layer,) = reader.encoder.layers
    peer = nn.MultiheadAttention(16, 4, batch_first=True)
    peer.in_proj_weight.data, peer.in_proj_bias.data = layer.attention.inward.weight, layer.attention.inward.bias
    peer.out_proj.load_state_dict(layer.attention.outward.state_dict())
    inner, outer = layer.feed_forward.inward, layer.feed_forward.outward
    norm = nn.LayerNorm(16)
    sublayers = (lambda x: peer(x, x, x)[0], lambda x: outer(torch.relu(inner(x))))
    around = {
        POST: lambda x, f: norm(x + f(x)),
        PRE: lambda x, f: x + f(norm(x)),
        ADD: lambda x, f: x + f(x),
        NORM: lambda x, f: norm(f(x)),
        NEITHER: lambda x, f: f(x),
    }[way]
    source = torch.randint(RECIPE.letters, (3, 5))
    with torch.no_grad():
        x, _ = reader.stem(source, torch.ones_like(source, dtype=torch.bool))
        for sublayer in sublayers:
            x = around(x, sublayer)
        x = norm(x) if way == PRE else x
        torch.testing.assert_close(reader(source), reader.line(x), atol=1e-5, rtol=1e-5)


def test_all_ways_begin_with_the_same_weights():
    matrices = [
        [p for name, p in Reader(way, 2, RECIPE, seed=3).named_parameters() if "around" not in name and p.ndim > 1]
        for way in WAYS
    ]
    for others in matrices[1:]:
        assert all(torch.equal(a, b) for a, b in zip(matrices[0], others, strict=True))


def test_the_letter_before_by_hand():
    assert before(torch.tensor([[3, 1, 2], [0, 0, 4]])).tolist() == [[3, 3, 1], [0, 0, 0]]


def test_steps_by_hand():
    assert steps_to([0.2, 0.89, 0.9, 0.7], every=10) == 30
    assert steps_to([0.2, 0.3], every=10) == math.inf


def test_the_best_rate_is_the_fastest_or_gets_farthest():
    def curve(rate, right):
        return {"way": ADD, "depth": 2, "rate": rate, "right": right}

    curves = [curve(0.1, [0.1, 0.95]), curve(0.2, [0.95, 0.5]), curve(0.3, [0.99])]
    found = best({"curves": curves, "every": 5}, ADD, 2)
    assert [one["rate"] for one in found] == [0.3]
    never = [curve(0.1, [0.1, 0.5]), curve(0.2, [0.6, 0.4])]
    assert [one["rate"] for one in best({"curves": never, "every": 5}, ADD, 2)] == [0.1]


def test_it_holds(numbers):
    verdict = EXPERIMENT.verdict(numbers)
    assert verdict.held, verdict.sentence
    assert needed(numbers, NEITHER, 1) < math.inf == needed(numbers, NEITHER, DEEP)


def test_one_layer_flips_it(numbers):
    """The shallow networks' curves in place of the deep ones': nothing is sped up there."""
    made = copy.deepcopy(numbers)
    shallow = [curve for curve in made["curves"] if curve["depth"] == 1]
    made["curves"] = [curve | {"depth": depth} for curve in shallow for depth in RECIPE.depths]
    assert not EXPERIMENT.verdict(made).held


@pytest.mark.parametrize("way", [POST, PRE])
def test_a_way_that_does_not_learn_flips_it(numbers, way):
    (never,) = best(numbers, NEITHER, DEEP)
    assert not EXPERIMENT.verdict(changed(numbers, way, DEEP, never["right"])).held


def test_a_control_that_needs_the_help_flips_it(numbers):
    (never,) = best(numbers, NEITHER, DEEP)
    assert not EXPERIMENT.verdict(changed(numbers, NEITHER, 1, never["right"])).held
