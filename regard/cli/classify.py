"""`regard classify`: labels with probabilities."""

from __future__ import annotations

import os
from functools import partial
from typing import Annotated, Any

import typer

from regard.cli.bulk import Column, Input, Key, On, Output, ShardCount, bulk_file, model_for
from regard.cli.inputs import LineTask, answer, bulk_answers, reader
from regard.cli.options import MOST, Device, JsonLines, Model, Quiet
from regard.cli.terminal import Format, as_json


def classify(
    model: Model,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="INPUT", help="A text, or a file (picture, clip, .csv); without it, lines of stdin."),
    ] = None,
    top: Annotated[int, typer.Option(min=1, max=MOST, help="Labels shown per input, most probable first.")] = 3,
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
    """Classify texts, pictures, clips or series.

    One line for each input: the label and its probability, then the next ones, separated by tabs.
    """
    opened = partial(open_task, model_for(on, model), top, format)
    if bulk := bulk_file(inputs, input, output, shards, on, column, key):
        return bulk.answer(partial(bulk_answers, opened, os.getcwd()), device, quiet)
    task = opened(device, quiet)
    answer(inputs, task.read, task.use, "regard classify MODEL 'a text'", quiet)


def open_task(model: str, top: int, format: Format, device: str, quiet: bool) -> LineTask:
    import regard

    task = regard.load(model, device=device, task="classify")

    def use(raws: list[Any]) -> list[str]:
        found = task.classify(raws)
        if format is Format.json:
            return [as_json({"label": one.label, "probabilities": one.probabilities}) for one in found]
        return ["\t".join(f"{n}\t{p:.4f}" for n, p in list(one.probabilities.items())[:top]) for one in found]

    settings = {"top": top, "format": format.value}
    return LineTask(model, reader(task, quiet), use, settings, task.pair.input.kind != "text")
