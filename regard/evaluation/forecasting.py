"""Errors of forecasts. Arrays have any equal shape, with the columns of the series last."""

from __future__ import annotations

import numpy as np


def mse(predicted: np.ndarray, actual: np.ndarray) -> float:
    """The mean squared error."""
    return float(np.mean(np.square(_errors(predicted, actual))))


def mae(predicted: np.ndarray, actual: np.ndarray) -> float:
    """The mean absolute error."""
    return float(np.mean(np.abs(_errors(predicted, actual))))


def mase(predicted: np.ndarray, actual: np.ndarray, steps: np.ndarray) -> float:
    """The mean absolute scaled error (Hyndman and Koehler 2006): the error of each column in units of `steps`, its mean
    change from row to row in the training data. Columns that never change there are left out."""
    moving = steps > 0
    if not moving.any():
        return 0.0
    return float(np.mean(np.abs(_errors(predicted, actual))[..., moving] / steps[moving]))


def percent(predicted: np.ndarray, actual: np.ndarray) -> float:
    """The mean absolute percentage error; no actual value may be zero."""
    return float(100 * np.mean(np.abs(_errors(predicted, actual) / actual)))


def coverage(actual: np.ndarray, low: np.ndarray, high: np.ndarray) -> float:
    """The percentage of actual values between low and high."""
    return float(100 * np.mean((low <= actual) & (actual <= high)))


def _errors(predicted: np.ndarray, actual: np.ndarray) -> np.ndarray:
    if predicted.shape != actual.shape:
        raise ValueError(f"forecasts of shape {predicted.shape} for values of shape {actual.shape}")
    return predicted.astype(np.float64) - actual
