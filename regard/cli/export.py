"""`regard export`: a model to give away, smaller than it was trained, or for another program."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.models import model_names
from regard.cli.terminal import harmless


class Program(StrEnum):
    regard = "regard"
    ctranslate2 = "ctranslate2"


class Precision(StrEnum):
    float32 = "float32"
    bfloat16 = "bfloat16"
    float16 = "float16"
    int16 = "int16"
    int8 = "int8"


def export(
    model: Annotated[str, typer.Argument(help="A shipped model, a model folder or a run.", autocompletion=model_names)],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="The new model folder.")],
    to: Annotated[
        Program, typer.Option(help="Which program reads it; ctranslate2 takes Transformers that translate.")
    ] = Program.regard,
    precision: Annotated[
        Precision, typer.Option(help="How the weights are kept; float16 and int16 are ctranslate2's alone.")
    ] = Precision.int8,
) -> None:
    """Write a model into a folder of its own, without what only training needs."""
    if to is Program.ctranslate2:
        from regard.interchange.ctranslate2 import export as write
    else:
        from regard.assemble import export as write

    folder = write(model, out, precision)
    size = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
    typer.echo(harmless(f"{folder}  {size:.1f} MB"))
