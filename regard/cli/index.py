"""`regard index`: an index of training examples, to look up what is near a word."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Data, Device, From, Model, Quiet, To, output_file
from regard.cli.progress import progress_bar
from regard.cli.terminal import say
from regard.errors import UserError

MOST, USUAL = 100_000, 5000
"""As in inspection/word_index.py, which imports torch."""


def index(
    model: Model,
    source: Annotated[str | None, typer.Option(metavar="FILE", help="Source text the model was trained on.")] = None,
    target: Annotated[
        str | None, typer.Option(metavar="FILE", help="Its translation, line by line; a .tsv may hold both.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", callback=output_file, help="Default: in the cache."),
    ] = None,
    data: Data = Path("data"),
    limit: Annotated[
        int, typer.Option(min=1, max=MOST, help="At most so many pairs, spread evenly over the files.")
    ] = USUAL,
    from_: From = None,
    to: To = None,
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Index training text by what a translator makes of each word.

    `regard inspect --view near` and the studio then show, for any word, the training examples that look most alike to
    the model. The file belongs to these weights alone: after more training, make it again.
    """
    if source is None:
        raise UserError(f"name the text and its translation: regard index {model} --source FILE --target FILE")

    from regard.evaluating import check_files, read_texts
    from regard.inspection.word_index import build_index, default_path, write_index
    from regard.loading import load

    sources, references = read_texts(check_files([source] if target is None else [source, target], data))
    if not sources:
        raise UserError(f"{source}: has no lines")
    step = -(-len(sources) // limit)
    sources, references = sources[::step], references[::step]
    translator = load(model, device, "translate")
    (told,) = translator.marks([sources[0]], None if from_ == "auto" else from_, to)
    with progress_bar(len(sources), enabled=not quiet, what="indexing") as advance:
        found = build_index(translator, sources, references, told, advance)
    file = output or default_path(translator.model)
    write_index(found, file)
    if not quiet:
        words = sum(len(side.vectors) for side in found.sides.values())
        size = file.stat().st_size / 1e6
        say(f"{file}: {words:,} words of {len(found.sources):,} pairs, {size:.1f} MB")
