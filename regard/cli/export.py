"""`regard export`: a model to give away, smaller than it was trained, or for another program."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import From, Model, To
from regard.cli.terminal import harmless
from regard.errors import UserError


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
    model: Model,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="The new model folder.")],
    program: Annotated[
        Program, typer.Option("--format", help="Which program reads it; ctranslate2 takes Transformers that translate.")
    ] = Program.regard,
    precision: Annotated[
        Precision,
        typer.Option(help="How the weights are kept; float16 and int16 need --format ctranslate2."),
    ] = Precision.int8,
    from_: From = None,
    to: To = None,
) -> None:
    """Write a model into a folder of its own, without what only training needs.

    --from and --to state the languages of a translator that was trained without saying them.
    """
    if program is Program.regard and precision.value in ("float16", "int16"):
        raise UserError(
            f"--precision {precision.value} needs --format ctranslate2; Regard's own folders keep weights in float32, "
            "bfloat16 or int8"
        )
    if program is Program.ctranslate2 and (from_ or to):
        raise UserError("a folder for ctranslate2 does not say its languages; leave out --from and --to")
    if output.exists():
        raise UserError(f"{output} already exists; choose another folder")
    if program is Program.ctranslate2:
        from regard.interchange.ctranslate2 import export as for_ctranslate2

        folder = for_ctranslate2(model, output, precision)
    else:
        from regard.assemble import export as for_regard

        folder = for_regard(model, output, precision, source_language=from_ or "", target_language=to or "")
    size = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
    typer.echo(harmless(f"{folder}  {size:.1f} MB"))
