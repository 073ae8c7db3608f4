"""The readout is least squares; the residual connection carries the position."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from regard.lab.position_readout import (
    GIVEN,
    LETTERS,
    NONE,
    RIDGE,
    SIZES,
    WITH,
    WITHOUT,
    Backwards,
    PositionReadout,
    read_out,
)

EXPERIMENT = PositionReadout()
SIZE = SIZES["tiny"]


@pytest.fixture(scope="module")
def numbers(tiny):
    return tiny("position_readout").numbers


def test_what_is_read_is_what_least_squares_gives():
    """Ridge regression as extra rows of a least-squares problem, solved by numpy."""
    torch.manual_seed(1)
    signal = torch.randn(6, 5)
    fitted, judged = (torch.randn(30, 6, 5) * 0.7 + signal for _ in range(2))
    x, y = (states.reshape(-1, 5).double().numpy() for states in (fitted, judged))
    centre, spread = x.mean(0), x.std(0, ddof=1)
    x, y = (np.c_[(states - centre) / spread, np.ones(len(states))] for states in (x, y))
    rows = np.r_[x, np.sqrt(RIDGE * len(x)) * np.eye(6)]
    weights = np.linalg.lstsq(rows, np.r_[np.tile(np.eye(6), (30, 1)), np.zeros((6, 6))], rcond=None)[0]
    wanted = np.mean((y @ weights).argmax(1) == np.tile(np.arange(6), 30))
    assert 0.3 < wanted < 1
    assert read_out(fitted, judged) == pytest.approx(wanted)


def test_places_are_read_where_they_are_written_and_guessed_where_not():
    torch.manual_seed(2)
    noise = torch.randn(2, 200, 8, 8)
    assert read_out(*(noise * 0.05 + torch.eye(8))) == 1
    assert read_out(*noise) == pytest.approx(1 / 8, abs=0.04)


@pytest.mark.parametrize("residual", [WITH, WITHOUT])
def test_a_layer_is_the_formula_with_the_connection_or_without(residual):
    torch.manual_seed(3)
    network = Backwards(residual, GIVEN, SIZE)
    embedded, first, *_ = network.layers(torch.randint(LETTERS, (2, 8)))
    layer, kept = network.encoder.layers[0], float(residual == WITH)

    def norm(x: torch.Tensor, around: torch.nn.Module) -> torch.Tensor:
        return F.layer_norm(x, (SIZE.width,), around.norm.weight, around.norm.bias)

    middle = norm(kept * embedded + layer.attention.self_attend(embedded), layer.around_attention)
    wanted = norm(kept * middle + layer.feed_forward(middle), layer.around_feed_forward)
    assert torch.allclose(first, wanted, atol=1e-6)


@pytest.mark.parametrize(("residual", "expected"), [(WITH, 1.0), (WITHOUT, 1 / 8)])
def test_what_no_sublayer_says_only_the_connection_carries(residual, expected):
    """Attention and feed-forward that give the same for every token: what is left to read came around them."""
    torch.manual_seed(4)
    network = Backwards(residual, GIVEN, SIZE)
    for name, parameter in network.encoder.named_parameters():
        if name.endswith("weight") and "norm" not in name:
            parameter.data.zero_()
    both = (network.layers(torch.randint(LETTERS, (200, 8)))[-1].detach() for _ in range(2))
    assert read_out(*both) == pytest.approx(expected, abs=0.03)


def test_given_positions_are_in_the_embedding_and_others_are_not(numbers):
    for run in numbers["runs"]:
        share = run["untrained"][0]
        assert share > 0.99 if run["position"] == GIVEN else share < 0.2
        assert len(run["trained"]) == SIZE.layers + 1


def test_the_verdict_and_what_flips_it(numbers):
    good = copy.deepcopy(numbers)
    for run in good["runs"]:
        top = 0.12 if run["position"] == NONE else 0.6 if run["residual"] == WITH else 0.2
        run["untrained"] = run["trained"] = [1.0, 0.5, top]
    assert EXPERIMENT.verdict(good).held

    def changed(residual: str, position: str, time: str, top: float) -> dict:
        other = copy.deepcopy(good)
        for run in other["runs"]:
            if (run["residual"], run["position"]) == (residual, position):
                run[time] = [1.0, 0.5, top]
        return other

    for time in ("untrained", "trained"):
        assert not EXPERIMENT.verdict(changed(WITH, GIVEN, time, 0.45)).held
        assert not EXPERIMENT.verdict(changed(WITHOUT, GIVEN, time, 0.3)).held  # the connection was not needed
        assert not EXPERIMENT.verdict(changed(WITH, NONE, time, 0.3)).held  # it was not the positions that were read


def test_more_is_read_with_the_connection_than_without(numbers):
    found = {(run["residual"], run["position"]): run["untrained"][-1] for run in numbers["runs"]}
    assert found[WITH, GIVEN] > 2 * found[WITHOUT, GIVEN]
    assert found[WITH, NONE] < 0.2
