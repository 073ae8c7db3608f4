"""The lecture's sequence computed in three other ways; other rates flip the verdict."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch

from regard.lab import gradient_descent
from regard.lab._experiment import Setting
from regard.lab.gradient_descent import RATES, GradientDescent, descend, slope

EXPERIMENT = GradientDescent()


@pytest.fixture(scope="module")
def numbers(tiny):
    return tiny("gradient_descent").numbers


def run_of(numbers, rate):
    (found,) = [run for run in numbers["runs"] if run["rate"] == rate]
    return found


def test_the_sequence_is_exact(numbers):
    x, wanted = Fraction(3), []
    for _ in range(100):
        x -= Fraction(1, 100) * 2 * (x + 5)
        wanted.append(float(x))
    points = run_of(numbers, 0.01)["points"]
    assert points[:4] == [3.0, 2.84, 2.6832, 2.529536]
    assert points[1:] == pytest.approx(wanted, rel=1e-11)


@pytest.mark.parametrize("rate", RATES)
def test_every_rate_follows_the_formula_and_torchs_optimiser(rate, numbers):
    points = descend(3.0, rate, 60, slope)
    assert points == pytest.approx([-5 + 8 * (1 - 2 * rate) ** t for t in range(len(points))], rel=1e-9, abs=1e-9)
    x = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.SGD([x], lr=rate)
    for point in points[1:]:
        optimiser.zero_grad()
        ((x + 5) ** 2).backward()
        optimiser.step()
        assert x.item() == pytest.approx(point, rel=1e-9, abs=1e-9)
    assert run_of(numbers, rate)["points"][:20] == pytest.approx(points[:20], rel=1e-11)


def test_what_each_rate_does(numbers):
    verdict = EXPERIMENT.verdict(numbers)
    assert verdict.held, verdict.sentence
    assert run_of(numbers, 0.1)["arrived"] == 30  # 8 * 0.8^30 = 0.0099
    assert run_of(numbers, 0.5)["arrived"] == 1 and run_of(numbers, 1.0)["arrived"] is None
    assert run_of(numbers, 1.1)["farthest"] > 1e7


@pytest.mark.parametrize(
    "wrong", [lambda x: x + 5, lambda x: -2 * (x + 5), lambda x: 2 * (x - 5)], ids=["half", "ascent", "elsewhere"]
)
def test_another_slope_flips_it(wrong, monkeypatch):
    monkeypatch.setattr(gradient_descent, "slope", wrong)
    assert not EXPERIMENT.verdict(EXPERIMENT.run("tiny", Setting())).held


def test_rates_below_one_all_converge_so_nothing_diverges(monkeypatch):
    monkeypatch.setattr(gradient_descent, "descend", lambda x, rate, *rest: descend(x, rate / 2, *rest))
    assert not EXPERIMENT.verdict(EXPERIMENT.run("tiny", Setting())).held
