"""How far forecasts are from what happened. Arrays of any equal shape, the columns of a series last."""

from __future__ import annotations

import numpy as np


def mse(given: np.ndarray, wanted: np.ndarray) -> float:
    """The mean squared error."""
    return float(np.mean(np.square(_errors(given, wanted))))


def mae(given: np.ndarray, wanted: np.ndarray) -> float:
    """The mean absolute error."""
    return float(np.mean(np.abs(_errors(given, wanted))))


def mase(given: np.ndarray, wanted: np.ndarray, steps: np.ndarray) -> float:
    """The mean absolute scaled error (Hyndman and Koehler 2006): each column's, in units of `steps`, which are how much
    it changes from one row to the next in the training rows. Columns that never changed there say nothing."""
    moving = steps > 0
    if not moving.any():
        return 0.0
    return float(np.mean(np.abs(_errors(given, wanted))[..., moving] / steps[moving]))


def percent(given: np.ndarray, wanted: np.ndarray) -> float:
    """The mean absolute error, as a percentage of what happened; that must not be zero anywhere."""
    return float(100 * np.mean(np.abs(_errors(given, wanted) / wanted)))


def coverage(wanted: np.ndarray, low: np.ndarray, high: np.ndarray) -> float:
    """How many of a hundred lie between low and high."""
    return float(100 * np.mean((low <= wanted) & (wanted <= high)))


def _errors(given: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    if given.shape != wanted.shape:
        raise ValueError(f"forecasts of shape {given.shape} for values of shape {wanted.shape}")
    return given.astype(np.float64) - wanted
