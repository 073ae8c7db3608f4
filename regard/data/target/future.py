"""The next values of a time series: windows of past rows, each with the rows that follow."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from regard.data.examples import Coded
from regard.data.format._base import Example
from regard.data.format._series import Span
from regard.data.input._base import Input
from regard.data.input.series import Series
from regard.data.target._base import Target, TargetSample
from regard.errors import UserError

__all__ = ["Future", "Windows"]

FILE = "target.json"
BAND_COVERAGE = 0.8
"""Share of the actual values that the prediction band should contain."""


class Future(Target):
    """Holds the mean change per step, and the band learnt from a finished model's errors on validation examples."""

    kind: ClassVar[str] = "future"

    def __init__(self, steps: Sequence[float], band: np.ndarray | None = None) -> None:
        self.steps = np.array(steps, dtype=np.float64)
        """(F,): mean absolute change of each column from row to row, in its own units."""
        self.band = band
        """(H, F), scaled: half the width of the band around a forecast; None until a model is finished."""

    @classmethod
    def sample(cls) -> TargetSample:
        return TargetSample("series", [Example(values, Span(1, ("a", "b"))) for values in Series.sample()])

    @classmethod
    def fit(cls, examples: Sequence[Example], *, seed: int, **options: Any) -> Future:
        moves = [np.abs(np.diff(example.input.astype(np.float64), axis=0)) for example in examples]
        if not sum(map(len, moves)):
            raise UserError("data.train: no series of two rows or more; there is nothing to forecast")
        return cls(np.concatenate(moves).mean(0).tolist())

    @classmethod
    def from_files(cls, files: Mapping[str, bytes]) -> Future:
        try:
            saved = json.loads(files[FILE])
            steps = saved["steps"]
            band = np.array(saved["band"], dtype=np.float64) if saved["band"] else None
            good = all(type(one) is float and math.isfinite(one) for one in steps) and (
                band is None or (band.ndim == 2 and band.shape[1] == len(steps) and bool(np.isfinite(band).all()))
            )
        except (KeyError, TypeError, ValueError, RecursionError):
            good = False
        if not good:
            raise UserError(f"{FILE}: does not describe forecasts; the model folder is damaged")
        return cls(steps, band)

    def files(self) -> dict[str, bytes]:
        band = [] if self.band is None else self.band.tolist()
        return {FILE: json.dumps({"steps": self.steps.tolist(), "sure": BAND_COVERAGE, "band": band}).encode()}

    def sizes(self) -> dict[str, int]:
        return {}

    def encode(self, example: Example, input: Input) -> tuple[np.ndarray, np.ndarray]:
        """The whole series, masked up to the first row to forecast; `Windows` cuts it."""
        return input.encode(example.input), np.arange(len(example.input)) >= example.target.begin

    def learn(self, errors: np.ndarray) -> None:
        """Sets the band that holds `BAND_COVERAGE` of the scaled errors (N, H, F), for each step and column.

        The k-th smallest of n errors is taken as quantile k / (n + 1): an exchangeable next error is within it just as
        often (split conformal prediction: Papadopoulos et al. 2002).
        """
        self.band = np.quantile(np.abs(errors), BAND_COVERAGE, axis=0, method="weibull").astype(np.float64)


class Windows(Sequence[Coded]):
    """Every window of `window` rows followed by `horizon` rows to forecast, as views made on access."""

    def __init__(self, series: Sequence[Coded], window: int, horizon: int) -> None:
        self.series, self.window, self.horizon = series, window, horizon
        self._begins = []
        """The first row to forecast in each series."""
        counts = []
        for one in series:
            begin = max(window, len(one.target_mask) - int(one.target_mask.sum()))
            self._begins.append(begin)
            counts.append(max(0, len(one.target) - horizon - begin + 1))
        self._ends = np.cumsum(counts, dtype=np.int64)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __getitem__(self, index: Any) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(index)
        number = int(np.searchsorted(self._ends, index, side="right"))
        one = self.series[number]
        before = int(self._ends[number - 1]) if number else 0
        at = self._begins[number] + int(index) - before
        past, future = slice(at - self.window, at), slice(at, at + self.horizon)
        return Coded(one.source[past], one.target[future], one.target_mask[future])
