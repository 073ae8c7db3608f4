"""Gradients against the chain rule; the verdict flips when its cause is removed."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

from regard.lab._bptt import Weights, backward, forward
from regard.lab._experiment import Setting
from regard.lab.gradients_through_time import (
    CELLS,
    SIZES,
    GradientsThroughTime,
    Network,
    gradients_at_every_step,
    sequences,
)
from regard.layers.cell.lstm import LSTM
from regard.layers.cell.rnn import RNN

EXPERIMENT = GradientsThroughTime()
RECIPE, CPU = SIZES["tiny"], torch.device("cpu")


@pytest.fixture(scope="module")
def numbers(tiny):
    return tiny("gradients_through_time").numbers


@pytest.fixture
def changed(numbers):
    """The numbers with the curves of one network replaced by another network's."""

    def change(name, trained, network):
        made = copy.deepcopy(numbers)
        others = [c for c in made["curves"] if (c["name"], c["trained"]) != (name, trained)]
        return made | {"curves": [*others, *network.curves(name, trained)]}

    return change


def test_the_rnns_gradients_are_those_of_back_propagation_through_time():
    torch.manual_seed(5)
    cell, line = RNN(2, 7).double(), nn.Linear(7, 4).double()
    x, targets = torch.randn(3, 12, 2).double(), torch.tensor([0, 3, 1])
    loss = nn.CrossEntropyLoss(reduction="sum")
    found = gradients_at_every_step(cell, x, lambda last: loss(line(last), targets))
    assert list(found) == ["hidden"] and found["hidden"].shape == (12, 3, 7)
    weights = Weights(*(p.detach() for p in (cell.inward, cell.recurrent, cell.bias, line.weight, line.bias)))
    asked = torch.arange(12) == 11
    for row in range(3):
        by_hand = backward(weights, forward(weights, x[row]), targets[row].expand(12), asked)
        torch.testing.assert_close(found["hidden"][:, row], by_hand.h, atol=1e-12, rtol=0)
        torch.testing.assert_close(found["hidden"][:, row].norm(dim=-1), by_hand.norms, atol=1e-12, rtol=0)


@pytest.mark.parametrize("cell", CELLS)
def test_a_nudge_of_h_changes_the_loss_as_its_gradient_says(cell):
    """Through everything that follows it, gates included."""
    torch.manual_seed(6)
    made, x = cell(2, 5).double(), torch.randn(1, 8, 2).double()
    found = gradients_at_every_step(made, x, lambda last: last.square().sum())
    assert tuple(found) == made.parts

    @torch.no_grad()
    def after(t, nudge):
        state = made.initial(1)
        for step in range(8):
            state, _ = made.step(made.project(x[:, step]), state)
            if step == t:
                state = (state[0] + nudge, *state[1:])
        return state[0].square().sum().item()

    for t in range(8):
        nudge = torch.randn(1, 5).double() * 1e-5
        measured = (after(t, nudge) - after(t, -nudge)) / 2
        assert measured == pytest.approx((found["hidden"][t] * nudge).sum().item(), rel=1e-6)


def test_the_lstms_cell_gradient_counts_both_ways_forward():
    """dL/dc_t = dL/dh_t o (1 - tanh(c_t)^2) + dL/dc_{t+1} f_{t+1}: through what is said and through what is kept."""
    torch.manual_seed(7)
    cell, x = LSTM(2, 5).double(), torch.randn(2, 6, 2).double()
    found = gradients_at_every_step(cell, x, lambda last: last.square().sum())
    state, steps = cell.initial(2), []
    for t in range(6):
        state, gates = cell.step(cell.project(x[:, t]), state)
        steps.append((gates, state[1]))
    for t in range(5):
        said = found["hidden"][t] * steps[t][0]["output"] * (1 - steps[t][1].tanh() ** 2)
        kept = found["cell"][t + 1] * steps[t + 1][0]["forget"]
        torch.testing.assert_close(found["cell"][t], said + kept)


def test_the_task_asks_for_the_first_number_and_marks_it():
    x, answers = sequences(100, 9, torch.Generator().manual_seed(1))
    assert torch.equal(x[:, 0, 0], answers) and x[..., 1].sum(1).eq(1).all() and x[:, 0, 1].eq(1).all()
    assert x[..., 0].abs().max() <= 1 and x[..., 0].min() < -0.9 and answers.std() > 0.4


@pytest.mark.parametrize("radius", [0.5, 1, 2])
def test_a_radius_is_the_spectral_radius(radius):
    network = Network(RNN, RECIPE, 1, CPU, radius)
    found = torch.linalg.eigvals(network.cell.recurrent.detach()).abs().max().item()
    assert found == pytest.approx(radius, rel=1e-5)


def test_it_holds_and_both_gated_cells_learned_the_task(numbers):
    verdict = EXPERIMENT.verdict(numbers)
    assert verdict.held, verdict.sentence
    reached = {curve["name"]: curve["explained"] for curve in numbers["curves"] if curve["trained"]}
    assert reached["LSTM"] > 0.9 and reached["GRU"] > 0.9 and reached["RNN"] < 0.9


class Turning(RNN):
    """A network whose W only turns and whose activation does nothing: it cannot lose a gradient."""

    def step(self, projected, state):
        h = projected + self.recur(state[0])
        return (h,), {"candidate": h}


def test_without_the_squashing_and_with_a_turning_matrix_nothing_vanishes(changed):
    network = Network(Turning, RECIPE, 1, CPU)
    for name, trained in (("RNN", True), ("RNN, radius 0.5", False)):
        control = changed(name, trained, network)
        (curve,) = [c for c in control["curves"] if (c["name"], c["trained"]) == (name, trained)]
        assert curve["ratios"] == pytest.approx([1] * RECIPE.length, rel=1e-3)
        assert not EXPERIMENT.verdict(control).held


def test_with_a_matrix_of_radius_one_nothing_explodes(changed):
    assert not EXPERIMENT.verdict(changed("RNN, radius 2", False, Network(RNN, RECIPE, 1, CPU))).held


def test_an_lstm_that_must_forget_keeps_nothing(changed):
    network = Network(LSTM, RECIPE, 1, CPU)
    network.cell.rows_of(network.cell.bias, "forget").fill_(-5)
    assert not EXPERIMENT.verdict(changed("LSTM", True, network)).held


def test_a_gru_that_must_forget_keeps_nothing(changed):
    network = Network(CELLS[2], RECIPE, 1, CPU)
    network.cell.rows_of(network.cell.bias, "update").fill_(-5)
    assert not EXPERIMENT.verdict(changed("GRU", True, network)).held


def test_over_one_step_there_is_nothing_to_see(numbers):
    curves = [curve | {"ratios": curve["ratios"][-2:]} for curve in numbers["curves"]]
    assert not EXPERIMENT.verdict(numbers | {"curves": curves, "length": 2}).held


def test_numbers_that_are_not_finite_do_not_hold_and_can_be_drawn(numbers):
    curves = [curve | {"ratios": [None] * RECIPE.length} for curve in numbers["curves"]]
    failed = {"failed_at": 3, "explained": None, "norms": [1.0, 2.0, None, None]}
    broken = numbers | {"curves": curves, "descents": [d | failed for d in numbers["descents"]]}
    assert not EXPERIMENT.verdict(broken).held
    assert "diverged" in [row[5] for row in EXPERIMENT.table(broken)]
    EXPERIMENT.figure(broken)


def test_clipping_bounds_every_step_and_only_when_asked_to(numbers):
    plain, clipped = numbers["descents"]
    assert plain["clip"] is None and plain["largest"] == plain["largest_taken"] > 3
    assert clipped["largest"] > 3 and clipped["largest_taken"] == pytest.approx(1, rel=1e-4)
    assert len(clipped["norms"]) == RECIPE.unclipped_steps and clipped["failed_at"] is None


def test_a_descent_that_diverges_says_where():
    network = Network(RNN, RECIPE, 1, CPU, 2.0)
    optimiser = torch.optim.SGD(network.parameters(), lr=1e12)
    found = network.train_with(optimiser, 30, math.inf, lambda: None)
    at = found["failed_at"]
    assert 2 <= at <= 30 and found["norms"][at - 1] is None and None not in found["norms"][: at - 1]
    assert found["largest"] == max(found["norms"][: at - 1])
    assert network.explained() is None


def test_progress_comes_to_its_end():
    told = []
    EXPERIMENT.run("tiny", Setting(progress=lambda *state: told.append(state)))
    total = 3 * RECIPE.steps + 2 * RECIPE.unclipped_steps
    assert told[-1] == (total, total, "training") and len(told) > 20
    assert [done for done, *_ in told] == sorted({done for done, *_ in told})
