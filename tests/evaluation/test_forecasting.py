"""Errors of forecasts, against numbers worked out by hand."""

import numpy as np
import pytest

from regard.evaluation.forecasting import coverage, mae, mase, mse, percent

GIVEN = np.array([[1.0, 10.0], [2.0, 30.0]])
HAPPENED = np.array([[2.0, 10.0], [4.0, 20.0]])
"""Off by 1, 0, 2 and 10."""


def test_squared_and_absolute():
    assert mse(GIVEN, HAPPENED) == (1 + 0 + 4 + 100) / 4
    assert mae(GIVEN, HAPPENED) == (1 + 0 + 2 + 10) / 4
    assert mse(HAPPENED, HAPPENED) == mae(HAPPENED, HAPPENED) == 0


def test_scaled_by_how_far_each_column_goes_in_a_step():
    assert mase(GIVEN, HAPPENED, np.array([0.5, 20.0])) == (2 + 0 + 4 + 0.5) / 4
    assert mase(GIVEN, HAPPENED, np.array([0.5, 0.0])) == (2 + 4) / 2  # the second never moved
    assert mase(GIVEN, HAPPENED, np.zeros(2)) == 0


def test_to_copy_a_walk_of_equal_steps_costs_its_steps():
    """The last value of 0, 3, 6, ... is copied two steps far: off by 3 and 6, which is 1 and 2 steps."""
    assert mase(np.array([[6.0], [6.0]]), np.array([[9.0], [12.0]]), np.array([3.0])) == 1.5


def test_percent():
    assert percent(GIVEN, HAPPENED) == 100 * (0.5 + 0 + 0.5 + 0.5) / 4


def test_coverage_counts_the_ends_in():
    assert coverage(HAPPENED, HAPPENED - 1, HAPPENED) == 100
    assert coverage(HAPPENED, np.array([0.0, 0.0]), np.array([3.0, 15.0])) == 50
    assert coverage(HAPPENED, np.array([9.0, 90.0]), np.array([10.0, 100.0])) == 0


def test_one_step_too_few_is_not_stretched_to_fit():
    with pytest.raises(ValueError, match=r"\(1, 2\)"):
        mse(GIVEN[:1], HAPPENED)
