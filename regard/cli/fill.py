"""`regard fill`: words for blanks, by a masked language model."""

from __future__ import annotations

import os
from dataclasses import asdict
from functools import partial
from typing import Annotated

import typer

from regard.cli.bulk import Column, Input, Key, On, Output, ShardCount, bulk_file, model_for
from regard.cli.inputs import LineTask, answer, bulk_answers
from regard.cli.options import MOST, Device, JsonLines, Model
from regard.cli.terminal import Format, as_json

__all__ = ["fill"]


def fill(
    model: Model,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="A text with _ for each missing word; without it, lines of stdin."),
    ] = None,
    top: Annotated[int, typer.Option(min=1, max=MOST, help="Words shown per blank, most probable first.")] = 5,
    device: Device = "auto",
    format: JsonLines = Format.text,
    input: Input = None,
    output: Output = None,
    shards: ShardCount = None,
    on: On = None,
    column: Column = None,
    key: Key = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No hints.")] = False,
) -> None:
    """Fill the blanks of texts.

    One line per text: the most probable words with their probabilities, separated by tabs; several blanks are separated
    by |.
    """
    opened = partial(open_task, model_for(on, model), top, format)
    if bulk := bulk_file(inputs, input, output, shards, on, column, key):
        return bulk.answer(partial(bulk_answers, opened, os.getcwd()), device, quiet)
    task = opened(device, quiet)
    answer(inputs, task.read, task.use, "regard fill MODEL 'one _ two'", quiet)


def open_task(model: str, top: int, format: Format, device: str, quiet: bool) -> LineTask:
    import regard

    task = regard.load(model, device=device, task="fill")

    def use(raws: list[str]) -> list[str]:
        found = task.fill(raws, top)
        if format is Format.json:
            return [as_json(asdict(one)) for one in found]
        blanks = [["\t".join(f"{c.word}\t{c.probability:.4f}" for c in blank) for blank in one.blanks] for one in found]
        return ["\t|\t".join(lines) for lines in blanks]

    def read(text: str) -> object:
        raw = task.pair.input.read(text)
        task.hidden(raw)  # refuses a text without a blank: that line alone, not those around it
        return raw

    return LineTask(model, read, use, {"top": top, "format": format.value})
