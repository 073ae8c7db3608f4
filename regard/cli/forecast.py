"""`regard forecast`: the next values of a series, with prediction intervals."""

from __future__ import annotations

import csv
import enum
import io
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import MOST, Device, Model, output_file
from regard.cli.terminal import aligned, as_json, say, shown
from regard.cli.translate import writing_may_fail
from regard.errors import UserError

if TYPE_CHECKING:
    import numpy as np

    from regard.task.forecast import Forecast


__all__ = ["forecast"]

DRAWN = 20
"""Maximum number of columns in a figure."""


class Form(enum.StrEnum):
    text = "text"
    json = "json"
    csv = "csv"


def forecast(
    model: Model,
    series: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A .csv or .csv.gz with column names in the first line, then one row per step."
        ),
    ],
    horizon: Annotated[
        int | None, typer.Option(min=1, max=MOST, help="Steps to forecast; default: the horizon it was trained for.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", callback=output_file, help="Also draw a figure, as .svg or .png."
        ),
    ] = None,
    device: Device = "auto",
    format: Annotated[Form, typer.Option(help="A table to read, one JSON object, or CSV.")] = Form.text,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No hints.")] = False,
) -> None:
    """Forecast the next steps of a series.

    For every step and column: a value and an 80 % interval (low, high), measured in validation. There is no interval
    beyond the horizon the model was trained for.
    """
    if output is not None and output.suffix not in (".svg", ".png"):
        raise UserError(f"{output}: drawings are .svg or .png; give it such a name")
    import regard
    from regard.data.input.series import read_table
    from regard.data.timestamps import next_timestamps

    note = (lambda text: None) if quiet else say
    task = regard.load(model, device=device, task="forecast")
    past = task.series.read(str(series), note)
    if len(past) < task.model.window:
        raise UserError(f"{series}: {len(past)} rows are too few; the model needs the last {task.model.window}")
    found = task.forecast(past, horizon, note)
    times = read_table(series).times
    after = next_timestamps(times[-max(3, task.model.window) :], len(found.values))
    if times and after is None:
        note(f"{series}: its times have no constant step or format, so steps are numbered")
    if output is not None:
        if len(found.columns) > DRAWN:
            note(f"{output}: shows the first {DRAWN} of {len(found.columns)} columns")
        _draw(output, past, found, times if after else [], after or [])
    with writing_may_fail():
        sys.stdout.buffer.write(shown(_written(found, after, format)).encode("utf-8", "replace") + b"\n")
        sys.stdout.buffer.flush()


def _written(found: Forecast, after: list[str] | None, format: Form) -> str:
    import numpy as np

    name, steps = ("time", after) if after else ("step", [str(n) for n in range(1, len(found.values) + 1)])
    if format is Form.json:
        return as_json({name: after or [*range(1, len(steps) + 1)], "forecasts": _tree(found)})
    header = [name, *(f"{column}{end}" for column in found.columns for end in ("", " low", " high"))]
    rows = [header]
    parts = np.stack([found.values, found.low, found.high], axis=-1).reshape(len(steps), -1)
    rows += [[step, *map(_number, cells)] for step, cells in zip(steps, parts.tolist())]
    if format is Form.csv:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        return text.getvalue().rstrip("\n")
    return "\n".join(aligned([tuple(cell or "-" for cell in row) for row in rows]))


def _tree(found: Forecast) -> dict[str, dict[str, list[float | None]]]:
    parts = {"value": found.values, "low": found.low, "high": found.high}

    def plain(column: np.ndarray) -> list[float | None]:
        return [float(_number(value)) if math.isfinite(value) else None for value in column.tolist()]

    return {column: {name: plain(part[:, j]) for name, part in parts.items()} for j, column in enumerate(found.columns)}


def _number(value: float) -> str:
    """Six significant digits; empty for NaN."""
    return f"{value:.6g}" if math.isfinite(value) else ""


def _draw(file: Path, past: np.ndarray, found: Forecast, times: list[str], after: list[str]) -> None:
    from regard.inspection.draw.style import printable, shortened
    from regard.lab._drawing import FAINT, PALETTE, panels, rendered
    from regard.storage import write_file

    steps, columns = len(found.values), found.columns[:DRAWN]
    kept = past[-max(24, 3 * steps) :]  # enough of the past to judge the forecast
    before, ahead = range(1 - len(kept), 1), range(steps + 1)

    def draw() -> Any:
        figure, axes = panels(1, len(columns), width=8.0, height=2.6 if len(columns) > 1 else 3.6, sharex=True)
        for j, (panel, column) in enumerate(zip(axes, columns)):
            joined = [kept[-1, j], *found.values[:, j]]  # continue the line from the last measured value
            panel.plot(before, kept[:, j], color=FAINT, linewidth=1.5, label="measured")
            panel.plot(ahead, joined, color=PALETTE[0], label="forecast")
            if math.isfinite(found.low[0, j]):
                ends = [kept[-1, j], *found.low[:, j]], [kept[-1, j], *found.high[:, j]]
                panel.fill_between(ahead, *ends, color=PALETTE[0], alpha=0.18, linewidth=0, label="four of five")
            panel.set_title(printable(shortened(column, 60)), parse_math=False)
            panel.margins(x=0.01)
        names = [*times[-len(kept) :], *after]
        if names:
            chosen = [round(i * (len(names) - 1) / 4) for i in range(5)]
            axes[-1].set_xticks([before[0] + i for i in chosen], [names[i] for i in chosen], parse_math=False)
        else:
            axes[-1].set_xlabel("steps from the last row")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper left", ncols=3, fontsize=9)
        return figure

    write_file(file, rendered(draw)[file.suffix[1:]])
