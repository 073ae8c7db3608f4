"""Forecasting: a series goes in, what comes next goes out, with how sure that is."""

from __future__ import annotations

import math
from typing import Any

from pydantic import BaseModel, Field

from regard.errors import UserError
from regard.serving.workers.tasks._input import read_rows
from regard.serving.workers.tasks._request import Asked, Rows, example

__all__ = ["Request", "Answer", "answer"]

MOST_NUMBERS = 100_000
"""Of a forecast, all columns together."""


class Request(Asked):
    model_config = example({"series": [[21.0, 3.5], [20.5, 3.0], [19.0, 2.5]], "horizon": 2})

    series: Rows = Field(description="The past: a row for each step, with the columns that the model was shown.")
    horizon: int | None = Field(None, ge=1, le=10_000, description="Steps to forecast; else as many as were trained.")


class Column(BaseModel):
    """One column of the series, a number for each step; null where that is not known."""

    value: list[float | None]
    low: list[float | None]
    high: list[float | None] = Field(description="Between low and high lay four of five values when it was validated.")


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
    asked = Request(**request)
    notes: list[str] = []
    horizon = asked.horizon or model.model.horizon
    if horizon * len(model.columns) > MOST_NUMBERS:
        raise UserError(
            f"horizon: {horizon:,} steps of {len(model.columns)} columns; {MOST_NUMBERS:,} numbers are the most"
        )
    found = model.forecast(read_rows(asked.series), asked.horizon, notes.append)
    parts = {"value": found.values, "low": found.low, "high": found.high}
    forecasts = {
        column: {name: [_known(value) for value in part[:, place].tolist()] for name, part in parts.items()}
        for place, column in enumerate(found.columns)
    }
    return {"columns": found.columns, "forecasts": forecasts, "notes": notes}


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
