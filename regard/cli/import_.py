"""`regard import`: a model in another program's format as a model folder."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import From, JsonValue, To, output_folder
from regard.cli.progress import parts_bar
from regard.cli.terminal import Format, as_json, escape_control_characters, say
from regard.errors import UserError


class Stored(StrEnum):
    as_it_is = "as-it-is"
    float32 = "float32"
    bfloat16 = "bfloat16"
    int8 = "int8"


def import_(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="hf:NAME or hf:NAME@REVISION (the Hugging Face hub), a folder of Hugging Face or CTranslate2, or a "
            ".argosmodel or .gguf file.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            callback=output_folder,
            help="The new model folder; without it, the model is kept in the cache under its name.",
        ),
    ] = None,
    precision: Annotated[
        Stored, typer.Option(help="Precision of the weights; as-it-is keeps it, except that float16 becomes bfloat16.")
    ] = Stored.as_it_is,
    from_: From = None,
    to: To = None,
    format: JsonValue = Format.text,
) -> None:
    """Make a model folder of a model in another program's format, to use like any other.

    `regard models` lists what was imported without --output. --model hf:NAME imports on first use. --from and --to set
    the languages of a translator whose files do not state them.
    """
    from regard.cli.models import imported
    from regard.interchange.sources import import_model

    with _progress() as show:
        folder = import_model(
            source,
            output,
            precision="" if precision is Stored.as_it_is else precision.value,
            source_language=from_ or "",
            target_language=to or "",
            note=say,
            show=show,
        )
    one = imported(folder.name, folder)
    if format is Format.json:
        typer.echo(as_json(one.as_dict()))
    else:
        typer.echo(escape_control_characters(f"{folder}  {one.bytes / 1e6:.1f} MB"))


def on_first_use() -> None:
    """The import of a model that another process needs (imported_models.py): its folder or what is wrong, as JSON."""
    from regard.interchange.sources import import_model

    try:
        with _progress() as show:
            answer = {"imported": True, "text": str(import_model(sys.argv[1], note=say, show=show))}
    except UserError as error:
        answer = {"imported": False, "text": str(error)}
    print(json.dumps(answer))


@contextmanager
def _progress() -> Iterator[Callable[[int, int, str], None]]:
    with parts_bar() as bar:
        yield lambda done, total, what: bar(done // 1_000_000, total // 1_000_000, f"{what} (MB)")
