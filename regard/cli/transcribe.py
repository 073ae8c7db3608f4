"""`regard transcribe`: speech to text."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from regard.cli.caption import written
from regard.cli.inputs import answer, reader
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
    quiet: Quiet = False,
) -> None:
    """Transcribe recordings, one line each.

    Columns are separated by tabs: the recording's number (with --n-best), text, log-probability (with --scores).
    """
    import regard

    task = regard.load(model, device=device, task="transcribe")

    def use(raws: list[Any]) -> list[str]:
        return [written(one, format, scores) for one in task.transcribe(raws, beam=beam, n_best=n_best)]

    numbered = n_best > 1 and format is Format.text
    answer(sounds, reader(task, quiet), use, "regard transcribe MODEL speech.wav", quiet, numbered)
