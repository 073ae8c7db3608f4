"""`regard average`: one model with the mean weights of several."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.models import model_names
from regard.cli.options import output_folder
from regard.cli.terminal import escape_control_characters


def average(
    model: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="Checkpoints (RUN/checkpoints/step-...), runs or models.",
            autocompletion=model_names,
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", callback=output_folder, help="The new model folder.")
    ],
) -> None:
    """Average the weights of checkpoints of a run, or of runs that started from the same model.

    Training averages its own last checkpoints (training.average); this is for other choices. All must have the same
    parts and tokenizer. Score the result: the average is usually, not always, better.
    """
    from regard.runs.averaging import write_average

    folder = write_average(model, output)
    size = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
    typer.echo(escape_control_characters(f"{folder}  {size:.1f} MB  the mean of {len(model)} models"))
