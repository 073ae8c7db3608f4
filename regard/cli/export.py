"""`regard export`: a quantised model folder, or a model for another program."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import From, Model, To, output_folder
from regard.cli.terminal import escape_control_characters


class Program(StrEnum):
    regard = "regard"
    ctranslate2 = "ctranslate2"
    huggingface = "huggingface"
    argos = "argos"
    onnx = "onnx"


class Precision(StrEnum):
    float32 = "float32"
    bfloat16 = "bfloat16"
    float16 = "float16"
    int16 = "int16"
    int8 = "int8"


def export(
    model: Model,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", callback=output_folder, help="The new model folder.")
    ],
    program: Annotated[
        Program,
        typer.Option(
            "--format",
            help="Target program; all but regard take Transformers that translate, huggingface also language "
            "models and ViTs. Argos wants a FILE.argosmodel.",
        ),
    ] = Program.regard,
    precision: Annotated[
        Precision | None,
        typer.Option(help="Precision of the weights; int8 by default, float32 for huggingface."),
    ] = None,
    shortlist: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Text in the target language: a translator then writes only tokens that occur in it. May be repeated; "
            "with several target languages de=FILE is German text.",
        ),
    ] = None,
    from_: From = None,
    to: To = None,
) -> None:
    """Write a model to a new folder, without the files that only training needs.

    --from and --to set the languages of a translator that was trained without them. With --shortlist it is
    faster on a CPU; give it all the text that the model learnt to write, as in its training data.
    """
    from regard.interchange import export as write

    folder = write(
        model,
        output,
        format=program.value,
        precision=precision.value if precision else "",
        source_language=from_ or "",
        target_language=to or "",
        shortlist=shortlist or (),
    )
    size = sum(file.stat().st_size for file in (folder.iterdir() if folder.is_dir() else [folder])) / 1e6
    typer.echo(escape_control_characters(f"{folder}  {size:.1f} MB"))
