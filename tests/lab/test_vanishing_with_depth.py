"""Gradients against the chain rule; another activation and a shallow network flip the verdict."""

from __future__ import annotations

import copy
import math

import pytest
import torch

from regard.lab.vanishing_with_depth import (
    ACTIVATIONS,
    LOSSES,
    SIZES,
    Activation,
    Deep,
    VanishingWithDepth,
    layer_gradients,
    output_gradients,
    ratios,
)

EXPERIMENT = VanishingWithDepth()
RECIPE, CPU = SIZES["tiny"], torch.device("cpu")
DEEP = RECIPE.depths[-1]


@pytest.fixture(scope="module")
def numbers(tiny):
    return tiny("vanishing_with_depth").numbers


def changed(numbers, name, activation, depth=DEEP, shown_as=DEEP):
    """The numbers with those of a function at a depth replaced by another's."""
    made = copy.deepcopy(numbers)
    for network in made["networks"]:
        if (network["activation"], network["depth"]) == (name, shown_as):
            network["norms"] = [
                layer_gradients(activation, depth, network["loss"], RECIPE, seed, CPU) for seed in (1, 2)
            ]
    return made


@pytest.mark.parametrize(
    ("name", "slope"),
    [
        ("sigmoid", lambda a: torch.sigmoid(a) * (1 - torch.sigmoid(a))),
        ("tanh", lambda a: 1 - torch.tanh(a) ** 2),
        ("ReLU", lambda a: (a > 0).double()),
        ("leaky ReLU", lambda a: torch.where(a > 0, 1.0, 0.01).double()),
    ],
)
def test_the_gradients_are_those_of_the_chain_rule(name, slope):
    found = layer_gradients(ACTIVATIONS[name], 5, "cross-entropy", RECIPE, 7, CPU)
    torch.manual_seed(7)
    network = Deep(ACTIVATIONS[name], 5, RECIPE).double()
    x = torch.randn(RECIPE.rows, RECIPE.width, dtype=torch.float64)
    targets = torch.randint(RECIPE.classes, (RECIPE.rows,))
    with torch.no_grad():
        logits, before = network(x)
        y = torch.nn.functional.one_hot(targets, RECIPE.classes)
        arriving = (logits.softmax(-1) - y) / len(x) @ network.line.weight
        norms = []
        for layer, a in zip(reversed(network.hidden), reversed(before)):
            gradient = slope(a) * arriving
            norms.append(gradient.norm().item())
            arriving = gradient @ layer.weight
    assert found == pytest.approx(norms[::-1], rel=1e-10)


def test_a_wrong_output_by_hand():
    found = output_gradients((0, 6))
    p = 1 / (1 + math.exp(-6))
    assert found["cross-entropy"] == pytest.approx([0.5, p], rel=1e-5)
    assert found["squared error"] == pytest.approx([0.25, 2 * p * p * (1 - p)], rel=1e-5)


@pytest.mark.parametrize("name", ["ReLU", "leaky ReLU", "randomised ReLU"])
def test_the_gain_keeps_the_signals_size(name):
    torch.manual_seed(1)
    activation = ACTIVATIONS[name]
    x = torch.randn(400_000, dtype=torch.float64)
    assert (activation.gain * activation.apply(x)).square().mean().item() == pytest.approx(1, abs=0.02)


def test_it_holds_and_both_losses_lose_the_same(numbers):
    verdict = EXPERIMENT.verdict(numbers)
    assert verdict.held, verdict.sentence
    squared, entropy = (ratios(numbers, "sigmoid", DEEP, loss) for loss in LOSSES)
    assert squared == pytest.approx(entropy, rel=1), "cross-entropy does nothing for depth, and the page says so"


def test_straight_units_do_not_vanish(numbers):
    assert not EXPERIMENT.verdict(changed(numbers, "sigmoid", Activation(lambda x: x, 1.0))).held


def test_two_layers_do_not_vanish(numbers):
    assert not EXPERIMENT.verdict(changed(numbers, "sigmoid", ACTIVATIONS["sigmoid"], depth=2)).held


def test_a_control_that_vanishes_flips_it(numbers):
    assert not EXPERIMENT.verdict(changed(numbers, "sigmoid", ACTIVATIONS["sigmoid"], depth=20, shown_as=2)).held


def test_relu_with_a_sigmoids_matrices_does_vanish(numbers):
    """What helps is the function together with the spread that fits it: half a matrix, and nothing is left."""
    assert not EXPERIMENT.verdict(changed(numbers, "ReLU", Activation(torch.relu, 0.5))).held


def test_losses_that_are_alike_flip_it(numbers):
    wrong = numbers["wrong_output"] | {"squared error": numbers["wrong_output"]["cross-entropy"]}
    assert not EXPERIMENT.verdict(numbers | {"wrong_output": wrong}).held
