"""`regard caption`: describes pictures."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.bulk import Column, Input, Key, On, Output, ShardCount, bulk_file, model_for
from regard.cli.inputs import LineTask, answer, bulk_answers, reader
from regard.cli.options import Beam, Device, JsonLines, Model, NBest, Quiet
from regard.cli.terminal import Format, as_json, one_line

if TYPE_CHECKING:
    from regard.task._writing import Written


def caption(
    model: Model,
    pictures: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="PNG, JPEG, GIF, BMP or WEBP; without it, names on stdin."),
    ] = None,
    beam: Beam = None,
    n_best: NBest = 1,
    scores: Annotated[bool, typer.Option("--scores", help="Add a column with the log-probability.")] = False,
    device: Device = "auto",
    format: JsonLines = Format.text,
    input: Input = None,
    output: Output = None,
    shards: ShardCount = None,
    on: On = None,
    column: Column = None,
    key: Key = None,
    quiet: Quiet = False,
) -> None:
    """Describe pictures, one line each.

    Columns are separated by tabs: the picture's number (with --n-best), text, log-probability (with --scores).
    """
    opened = partial(_open, model_for(on, model), beam, n_best, scores, format)
    if bulk := bulk_file(pictures, input, output, shards, on, column, key):
        return bulk.answer(partial(bulk_answers, opened, os.getcwd()), device, quiet)
    task = opened(device, quiet)
    answer(pictures, task.read, task.use, "regard caption MODEL photo.jpg", quiet, task.numbered)


def _open(
    model: str, beam: int | None, n_best: int, scores: bool, format: Format, device: str, quiet: bool
) -> LineTask:
    import regard

    task = regard.load(model, device=device, task="caption")

    def use(raws: list[Any]) -> list[str]:
        return [written(one, format, scores) for one in task.caption(raws, beam=beam, n_best=n_best)]

    settings = {"beam": beam, "n_best": n_best, "scores": scores, "format": format.value}
    return LineTask(model, reader(task, quiet), use, settings, True, n_best > 1 and format is Format.text)


def written(one: Written, format: Format, scores: bool) -> str:
    """A generated text, with its alternatives below it."""
    every = [one, *one.alternatives]
    if format is Format.json:
        return as_json(tree_of(one))
    return "\n".join(one_line(w.text) + (f"\t{w.log_probability:.4f}" if scores else "") for w in every)


def tree_of(one: Written) -> dict[str, Any]:
    return {
        "text": one.text,
        "log_probability": one.log_probability,
        "finished": one.finished,
        "tokens": [{"token": t, "probability": p} for t, p in zip(one.tokens, one.token_probabilities)],
        "alternatives": [{"text": w.text, "log_probability": w.log_probability} for w in one.alternatives],
    }
