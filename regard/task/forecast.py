"""Forecasting: a time series in, its next values out, in its own units and with a prediction band."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, overload

import numpy as np
import torch

from regard.config import Recipe
from regard.data.codec import Pair
from regard.data.examples import Coded, collate
from regard.data.format._base import Example
from regard.data.input._accepted import SeriesLike
from regard.data.input.series import Series
from regard.data.splitting import read_parts
from regard.data.target.future import Future, Windows
from regard.errors import UserError
from regard.evaluation.forecasting import coverage, mae, mase, mse, percent
from regard.task._base import Note
from regard.task._examples import ExampleTask
from regard.task._one_or_many import one_or_many
from regard.types import Batch, Better, Validation

__all__ = ["Forecaster"]

TOGETHER = 256
"""Windows per batch."""
MOST_ERRORS = 20_000_000
"""Most numbers the band is learnt from; beyond that, evenly spaced windows are used."""
LONGEST = 100_000
"""Longest horizon in steps."""


@dataclass
class Forecast:
    """The forecast: (steps, columns) in the units of the series."""

    values: np.ndarray
    low: np.ndarray
    high: np.ndarray
    """The band that held 80 % of the values of the validation part; NaN where it was not measured."""
    columns: list[str]


class Forecaster(ExampleTask):
    """A forecasting model with its scales and columns."""

    usual: ClassVar[dict[str, Any]] = {"kind": "forecaster", "stem": "features"}
    target: ClassVar[str] = "future"
    unit: ClassVar[str] = "steps"
    usage: ClassVar[str] = "forecast {model} series.csv"
    scores: ClassVar[dict[str, Better]] = {
        "mse": "lower",
        "mae": "lower",
        "naive_mse": "lower",
        "naive_mae": "lower",
        "mase": "lower",
        "mae_in_units": "lower",
        "percent": "lower",
        "coverage": "higher",
    }
    public: ClassVar[tuple[str, ...]] = ("columns",)

    pair: Pair

    @property
    def series(self) -> Series:
        assert isinstance(self.pair.input, Series)
        return self.pair.input

    @property
    def future(self) -> Future:
        assert isinstance(self.pair.target, Future)
        return self.pair.target

    @property
    def columns(self) -> list[str]:
        """The columns of the series, by name."""
        return self.series.columns or [str(number) for number in range(1, len(self.series.mean) + 1)]

    @classmethod
    def resolve(cls, recipe: Recipe) -> Recipe:
        """Files named only for training are split by time into all three parts; the column names are stored."""
        files = recipe.data
        data = replace(files, valid=files.valid or files.train, test=files.test or files.train, hold_out_valid=0)
        if data.folds or data.hold_out_test:
            raise UserError("data: a series is cut by time (data.format.borders), not into folds or held-out examples")
        parts = read_parts(data)
        for name, examples in (("train", parts.train), ("valid", parts.valid), ("test", parts.test)):
            rows = max((len(example.input) for example in examples), default=0)
            to_forecast = max((len(example.input) - example.target.begin for example in examples), default=0)
            window, horizon = recipe.model["window"], recipe.model["horizon"]
            if rows < window + horizon or to_forecast < horizon:
                raise UserError(
                    f"data.{name}: {to_forecast:,} rows to forecast of {rows:,}; a window of {window} and a horizon of "
                    f"{horizon} need more, or must be smaller (model.window, model.horizon)"
                )
        columns = list(parts.train[0].target.columns)
        return replace(recipe, data=data, input={"columns": columns, **recipe.input})

    @classmethod
    def epochs(cls, recipe: Recipe, pair: Pair, examples: Sequence[Example]) -> Callable[[int], Sequence[Coded]]:
        windows = cls.windows(recipe, pair, examples)
        return lambda epoch: windows

    @classmethod
    def windows(cls, recipe: Recipe, pair: Pair, examples: Sequence[Example]) -> Windows:
        """Every window of these series, in order."""
        coded = [pair.encode(example) for example in examples]
        return Windows(coded, recipe.model["window"], recipe.model["horizon"])

    def coded_batches(self, examples: Sequence[Example]) -> Iterator[tuple[list[int], Batch]]:
        windows = self.windows(self.recipe, self.pair, examples)
        for start in range(0, len(windows), TOGETHER):
            indexes = list(range(start, min(start + TOGETHER, len(windows))))
            yield indexes, collate([windows[i] for i in indexes], self.series.varying).to(self.device)

    def judge(self, valid: Sequence[Example]) -> Validation:
        """Scores over all windows. mse and mae are of scaled values over all columns; the naive forecast repeats the
        last value. A single column is also scored in its own units."""
        found, sizes = [], []
        shown: list[tuple[str, str, str]] = []
        for predicted, actual, source in self._forecasts(valid):
            found.append(self._scores(predicted, actual, source))
            sizes.append(len(predicted))
            shown.append((self._few(source[0, -4:]), self._few(predicted[0]), self._few(actual[0])))
        if not found:
            raise UserError("there is no window to judge: the series is shorter than the model's window and horizon")
        names = [name for name in found[0] if all(name in one for one in found)]
        scores = {name: float(np.average([one[name] for one in found], weights=sizes)) for name in names}
        return Validation(scores, self.samples(shown))

    def _scores(self, predicted: np.ndarray, actual: np.ndarray, source: np.ndarray) -> dict[str, float]:
        last = np.repeat(source[:, -1:], actual.shape[1], axis=1)
        found = {
            "mse": mse(predicted, actual),
            "mae": mae(predicted, actual),
            "naive_mse": mse(last, actual),
            "naive_mae": mae(last, actual),
        }
        in_units, actual_in_units = self.series.decode(predicted), self.series.decode(actual)
        found["mase"] = mase(in_units, actual_in_units, self.future.steps)
        if in_units.shape[-1] == 1:
            found["mae_in_units"] = mae(in_units, actual_in_units)
            if (actual_in_units > 0).all():
                found["percent"] = percent(in_units, actual_in_units)
        if self.future.band is not None:
            found["coverage"] = coverage(actual, predicted - self.future.band, predicted + self.future.band)
        return found

    def learn_errors(self, valid: Sequence[Example]) -> bool:
        """Learns the band from the errors on the validation part, per step and column."""
        each = self.recipe.model["horizon"] * len(self.series.mean)
        total = len(self.windows(self.recipe, self.pair, valid))
        every = -(-total * each // MOST_ERRORS)
        found, seen = [], 0
        for predicted, actual, _ in self._forecasts(valid):
            found.append((actual - predicted)[-seen % every :: every])
            seen += len(predicted)
        if found:
            self.future.learn(np.concatenate(found))
        return bool(found)

    def _forecasts(self, examples: Sequence[Example]) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Forecasts, actual values and inputs of each batch, scaled."""
        for _, batch in self.coded_batches(examples):
            with torch.inference_mode():
                predicted = self.model(batch.source, batch.source_mask).float()
            yield predicted.cpu().numpy(), batch.target.cpu().numpy(), batch.source.cpu().numpy()

    def _few(self, values: np.ndarray) -> str:
        return " ".join(f"{value:.4g}" for value in self.series.decode(values)[:4, 0])

    @overload
    def forecast(self, series: SeriesLike, horizon: int | None = None, note: Note = ...) -> Forecast: ...  # type: ignore[overload-overlap]
    @overload
    def forecast(
        self, series: Iterable[SeriesLike], horizon: int | None = None, note: Note = ...
    ) -> list[Forecast]: ...
    def forecast(self, series: Any, horizon: int | None = None, note: Note = lambda text: None) -> Any:
        """Forecasts the next steps of a series, or of many into a list.

        Args:
            series: An array (steps, columns), a DataFrame or a CSV file, or an iterable of these. The model's columns
                are selected by name where there are names.
            horizon: Steps to forecast; by default as many as in training. Beyond that the model continues from its own
                forecasts.
            note: Called with a message if the horizon is longer than in training.

        Returns:
            A `Forecast` in the units of the series, or a list of them.
        """
        return one_or_many(series, self.series, lambda raws: [self._forecast(raw, horizon, note) for raw in raws])

    @torch.inference_mode()
    def _forecast(self, series: np.ndarray, horizon: int | None, note: Note) -> Forecast:
        window, reach = self.model.window, self.model.horizon
        steps = reach if horizon is None else horizon
        if not 1 <= steps <= LONGEST:
            raise UserError(f"a horizon of {steps} steps; 1 to {LONGEST:,} can be forecast")
        if len(series) < window:
            raise UserError(f"a series of {len(series)} rows is too short: the model looks at the last {window}")
        if steps > reach:
            note(f"the model was trained to forecast {reach} steps; further ones follow from its own forecasts")
        past = self.series.encode(series[-window:])
        seen, found = torch.from_numpy(past)[None].to(self.device), []
        for _ in range(-(-steps // reach)):
            mask = torch.ones(seen.shape[:2], dtype=torch.bool, device=self.device)
            found.append(self.model(seen, mask).float())
            seen = torch.cat([seen, found[-1]], 1)[:, -window:]
        values = torch.cat(found, 1)[0, :steps].cpu().numpy()
        band = np.full_like(values, np.nan)
        if self.future.band is None:
            note("how sure the model is was not measured: its training was not finished")
        else:
            band[:reach] = self.future.band[:steps]
        decode = self.series.decode
        return Forecast(decode(values), decode(values - band), decode(values + band), self.columns)
