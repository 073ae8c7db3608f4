"""The formulas against torch, and a wrong one is found."""

from __future__ import annotations

import copy

import pytest
import torch

from regard.lab import softmax_and_sigmoid
from regard.lab._experiment import Setting
from regard.lab.softmax_and_sigmoid import (
    SoftmaxAndSigmoid,
    autograd_jacobian,
    compared,
    nudged_jacobian,
    sigmoid,
    sigmoid_slope,
    softmax,
    softmax_jacobian,
)

EXPERIMENT = SoftmaxAndSigmoid()


@pytest.fixture(scope="module")
def numbers(tiny):
    return tiny("softmax_and_sigmoid").numbers


def test_the_functions_are_torchs_also_far_out():
    z = torch.tensor([-800.0, -30, -1, 0, 0.5, 30, 800], dtype=torch.float64)
    torch.testing.assert_close(sigmoid(z), torch.sigmoid(z), rtol=1e-14, atol=0)
    torch.testing.assert_close(softmax(z), torch.softmax(z, -1), rtol=1e-14, atol=1e-300)
    assert sigmoid_slope(torch.zeros(1)).item() == 0.25


def test_the_jacobian_is_torchs():
    z = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
    wanted = torch.autograd.functional.jacobian(lambda z: torch.softmax(z, -1), z)
    for found in (softmax_jacobian(z), autograd_jacobian(softmax, z[None])[0]):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-15)
    torch.testing.assert_close(nudged_jacobian(softmax, z[None])[0], wanted, rtol=0, atol=1e-9)


def test_the_jacobian_by_hand():
    """Softmax of (0, log 3) is (1/4, 3/4): every entry is 3/16, with its sign."""
    found = softmax_jacobian(torch.tensor([0.0, 3.0]).log().nan_to_num(neginf=0.0) * torch.tensor([0.0, 1.0]))
    torch.testing.assert_close(found, torch.tensor([[3.0, -3.0], [-3.0, 3.0]]) / 16)


def test_the_slides_two_numbers(numbers):
    assert numbers["slide"]["softmax"] == pytest.approx([0.416, 0.584], abs=5e-4)
    assert "it is 0.416 and 0.584" in EXPERIMENT.remark(numbers)


def test_it_holds(numbers):
    verdict = EXPERIMENT.verdict(numbers)
    assert verdict.held, verdict.sentence
    assert numbers["largest_sigmoid_slope"] == 0.25


def test_a_wrong_formula_is_found(numbers, monkeypatch):
    """The transposed sign, p_i (p_j - [i = j]), and one that is only a little too large."""
    right = softmax_jacobian
    for wrong in (lambda z: -right(z), lambda z: right(z) * (1 + 1e-9)):
        monkeypatch.setattr(softmax_and_sigmoid, "softmax_jacobian", wrong)
        assert not EXPERIMENT.verdict(EXPERIMENT.run("tiny", Setting())).held


def test_a_control_that_is_right_would_show_that_nothing_was_tested(numbers):
    changed = copy.deepcopy(numbers)
    draws = torch.randn(5, 4, dtype=torch.float64)
    changed["formulas"][-1] |= compared(softmax, softmax_jacobian, draws)
    assert not EXPERIMENT.verdict(changed).held
