"""`regard transcribe`: the words in a recording."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from regard.cli.caption import written
from regard.cli.inputs import answer, reader
from regard.cli.models import model_names
from regard.cli.terminal import Format


def transcribe(
    model: Annotated[str, typer.Argument(help="A model folder or a run.", autocompletion=model_names)],
    sounds: Annotated[
        list[str] | None, typer.Argument(metavar="FILE", help="WAV, FLAC or OGG; without it, names on stdin.")
    ] = None,
    beam: Annotated[int | None, typer.Option(help="Transcripts kept while searching; 1 is greedy.")] = None,
    n_best: Annotated[int, typer.Option(help="Transcripts of each, best first, each on its own line.")] = 1,
    scores: Annotated[bool, typer.Option("--scores", help="Add a column with the log-probability.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")] = "auto",
    format: Annotated[Format, typer.Option(help="Plain text, or one JSON object a line.")] = Format.text,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, hints or warnings.")] = False,
) -> None:
    """Write down what is said in recordings, one line each.

    Columns are separated by tabs: the recording's number (with --n-best), text, log-probability (with --scores).
    """
    import regard

    task = regard.load(model, device=device, task="transcribe")

    def use(raws: list[Any]) -> list[str]:
        return [written(one, format, scores) for one in task.transcribe(raws, beam=beam, n_best=n_best)]

    numbered = n_best > 1 and format is Format.text
    answer(sounds, reader(task, quiet), use, "regard transcribe MODEL speech.wav", quiet, numbered)
