"""`regard tag`: marks names in texts, or regions in DNA."""

from __future__ import annotations

import os
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

import typer

from regard.cli.bulk import Column, Input, Key, On, Output, ShardCount, bulk_file, model_for
from regard.cli.inputs import LineTask, answer, bulk_answers
from regard.cli.options import Device, JsonLines, Model
from regard.cli.terminal import Format, as_json, one_line

__all__ = ["tag"]


def tag(
    model: Model,
    inputs: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="A text, or DNA; without it, lines of stdin.")
    ] = None,
    words: Annotated[
        bool, typer.Option("--words", help="The text is already tokenised: spaces separate its words.")
    ] = False,
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
    """Mark names in texts, or regions in DNA.

    One line per text, with the names in brackets. JSON has every word with its tag and probability, and the start and
    end of each name.
    """
    opened = partial(open_task, model_for(on, model), words, format)
    if bulk := bulk_file(inputs, input, output, shards, on, column, key):
        return bulk.answer(partial(bulk_answers, opened, os.getcwd()), device, quiet)
    task = opened(device, quiet)
    answer(inputs, task.read, task.use, "regard tag MODEL 'a text'", quiet)


def open_task(model: str, words: bool, format: Format, device: str, quiet: bool) -> LineTask:
    import regard

    task = regard.load(model, device=device, task="tag")

    def read(text: str) -> object:
        raw = task.pair.input.read(text)
        return raw.split() if words else raw

    def use(raws: list[Any]) -> list[str]:
        found = task.tag(raws)
        return [as_json(asdict(one)) if format is Format.json else one_line(str(one)) for one in found]

    return LineTask(model, read, use, {"words": words, "format": format.value})
