"""What comes next in a series: windows of what was, each followed by what is wanted of it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from regard.data.examples import Coded
from regard.data.format._base import Example
from regard.data.input._base import Input
from regard.data.target._base import Target
from regard.errors import UserError

__all__ = ["Future", "Windows"]

FILE = "target.json"
SURE = 0.8
"""How much of what happens is to lie within the band."""


class Future(Target):
    """Knows how far the series goes in a step, and how wrong a finished model was on examples it was not trained on."""

    kind: ClassVar[str] = "future"

    def __init__(self, steps: Sequence[float], low: np.ndarray | None = None, high: np.ndarray | None = None) -> None:
        self.steps = np.array(steps, dtype=np.float64)
        """(F,): how much a column changes from one row to the next, on average, in its own units."""
        self.low, self.high = low, high
        """(H, F), scaled: what to add to a forecast for the two ends of its band; None until a model is finished."""

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
            steps, band = saved["steps"], saved["band"]
            ends = [np.array(band[name], dtype=np.float64) for name in ("low", "high")] if band else []
            good = all(type(one) is float and math.isfinite(one) for one in steps) and all(
                end.ndim == 2 and end.shape[1] == len(steps) and np.isfinite(end).all() for end in ends
            )
            good = good and (not ends or ends[0].shape == ends[1].shape)
        except (KeyError, TypeError, ValueError, RecursionError):
            good = False
        if not good:
            raise UserError(f"{FILE}: does not describe forecasts; the model folder is damaged")
        return cls(steps, *ends)

    def files(self) -> dict[str, bytes]:
        known = self.low is not None and self.high is not None
        band = {"low": self.low.tolist(), "high": self.high.tolist()} if known else {}  # type: ignore[union-attr]
        return {FILE: json.dumps({"steps": self.steps.tolist(), "sure": SURE, "band": band}).encode()}

    def sizes(self) -> dict[str, int]:
        return {}

    def encode(self, example: Example, input: Input) -> tuple[np.ndarray, np.ndarray]:
        """The series itself, from its first row that may be wanted; `Windows` cuts it."""
        return input.encode(example.input), np.arange(len(example.input)) >= example.target.begin

    def learn(self, errors: np.ndarray) -> None:
        """The band of the errors (N, H, F) that were made, what happened less what was forecast, scaled.

        Of n errors the k-th smallest stands at k / (n + 1): of exchangeable ones just `SURE` of the next lie within.
        """
        if len(errors) >= 2:
            tail = (1 - SURE) / 2
            self.low, self.high = np.quantile(errors, [tail, 1 - tail], axis=0, method="weibull").astype(np.float64)


class Windows(Sequence[Coded]):
    """Every place in whole series where `horizon` wanted rows follow `window` rows, cut out when it is asked for."""

    def __init__(self, series: Sequence[Coded], window: int, horizon: int) -> None:
        self.series, self.window, self.horizon = series, window, horizon
        self._begins = []
        """For each series, the first row that is forecast."""
        counts = []
        for one in series:
            begin = max(window, len(one.wanted) - int(one.wanted.sum()))
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
        return Coded(one.source[past], one.target[future], one.wanted[future])
