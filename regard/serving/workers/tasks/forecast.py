"""Forecasting: the next values of a time series, with an interval."""

from __future__ import annotations

import math
from typing import Any

from pydantic import BaseModel, Field

from regard.errors import UserError
from regard.serving.workers.tasks._input import read_rows
from regard.serving.workers.tasks._request import Rows, TaskRequest, example

__all__ = ["Request", "Answer", "answer"]

MAX_NUMBERS = 100_000
"""Values of a forecast, over all columns."""


class Request(TaskRequest):
    model_config = example({"series": [[21.0, 3.5], [20.5, 3.0], [19.0, 2.5]], "horizon": 2})

    series: Rows = Field(description="The past: one row per step, with the columns that the model was trained on.")
    horizon: int | None = Field(None, ge=1, le=10_000, description="Steps to forecast; default: as in training.")


class Column(BaseModel):
    """One column of the series: a number per step, null if unknown."""

    value: list[float | None]
    low: list[float | None]
    high: list[float | None] = Field(description="On validation data, 80 % of the values lay between low and high.")


class Answer(BaseModel):
    model_config = example(
        {
            "model": "weather",
            "columns": ["heat"],
            "forecasts": {"heat": {"value": [18.5], "low": [17.0], "high": [20.0]}},
            "notes": [],
        }
    )

    model: str
    columns: list[str] = Field(description="The columns of the series, in their order.")
    forecasts: dict[str, Column]
    notes: list[str]


def answer(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    parsed = Request(**request)
    notes: list[str] = []
    horizon = parsed.horizon or model.model.horizon
    if horizon * len(model.columns) > MAX_NUMBERS:
        raise UserError(
            f"horizon: {horizon:,} steps of {len(model.columns)} columns exceed the limit of {MAX_NUMBERS:,} numbers"
        )
    found = model.forecast(read_rows(parsed.series), parsed.horizon, notes.append)
    parts = {"value": found.values, "low": found.low, "high": found.high}
    forecasts = {
        column: {name: [_finite(value) for value in part[:, index].tolist()] for name, part in parts.items()}
        for index, column in enumerate(found.columns)
    }
    return {"columns": found.columns, "forecasts": forecasts, "notes": notes}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
