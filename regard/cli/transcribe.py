"""`regard transcribe`: speech to text."""

from __future__ import annotations

import os
from functools import partial
from typing import Annotated

import typer

from regard.cli.bulk import Column, Input, Key, On, Output, ShardCount, bulk_file, model_for
from regard.cli.caption import open_writer
from regard.cli.inputs import answer, bulk_answers
from regard.cli.options import Beam, Device, JsonLines, Model, NBest, Quiet
from regard.cli.terminal import Format


def transcribe(
    model: Model,
    sounds: Annotated[
        list[str] | None, typer.Argument(metavar="FILE", help="WAV, FLAC or OGG; without it, names on stdin.")
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
    """Transcribe recordings, one line each.

    Columns are separated by tabs: the recording's number (with --n-best), text, log-probability (with --scores).
    """
    opened = partial(open_writer, "transcribe", model_for(on, model), beam, n_best, scores, format)
    if bulk := bulk_file(sounds, input, output, shards, on, column, key):
        return bulk.answer(partial(bulk_answers, opened, os.getcwd()), device, quiet)
    task = opened(device, quiet)
    answer(sounds, task.read, task.use, "regard transcribe MODEL speech.wav", quiet, task.numbered)
