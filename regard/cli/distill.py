"""`regard distill`: a translator translates text, and the pairs train another one."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.data_clean import check_reasons, reasons, tell
from regard.cli.options import (
    MOST,
    BatchTokens,
    Beam,
    ComputedIn,
    Device,
    EngineName,
    From,
    LengthPenalty,
    MaxLength,
    Model,
    NBest,
    Quiet,
    To,
    Verbose,
    output_file,
)
from regard.cli.terminal import Engine, Precision, say
from regard.errors import UserError


def distill(
    model: Model,
    sources: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Text to translate, by lines; pairs.tsv#2 is a column. Repeatable."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="PAIRS.tsv", callback=output_file, help="The pairs: .tsv or .tsv.gz."),
    ] = None,
    from_: From = None,
    to: To = None,
    reverse: Annotated[
        bool, typer.Option("--reverse", help="The translation first: back-translation, to learn the other direction.")
    ] = False,
    beam: Beam = None,
    n_best: NBest = 1,
    length_penalty: LengthPenalty = None,
    max_length: MaxLength = None,
    min_probability: Annotated[
        float,
        typer.Option(min=0, max=1, help="Least mean probability of a translation's tokens (geometric), such as 0.2."),
    ] = 0.0,
    max_ratio: Annotated[
        float, typer.Option(min=1, max=1000, help="Largest factor between the lengths, relative to the usual one.")
    ] = 3.0,
    skip: Annotated[
        list[str] | None,
        typer.Option(metavar="REASON", autocompletion=reasons, help="Do not drop for this reason. Repeatable."),
    ] = None,
    keep_out: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Test text: pairs with a side that occurs in it are dropped. Repeatable."),
    ] = None,
    dropped: Annotated[
        Path | None,
        typer.Option(metavar="FILE", callback=output_file, help="The dropped pairs: reason, then as in the output."),
    ] = None,
    shards: Annotated[
        int | None, typer.Option(min=1, max=MOST, help="Parts per file; default: one per 10,000 lines.")
    ] = None,
    batch_tokens: BatchTokens = None,
    device: Device = "auto",
    precision: ComputedIn = Precision.auto,
    engine: EngineName = Engine.auto,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Translate text with a teacher, and write the pairs that are worth training on.

    A line is source, translation and score (the mean log-probability of a token), separated by tabs. If it is stopped
    or killed, the same command goes on; several processes may share the work. What was dropped, and why, is a table on
    stderr, as of `regard data clean`.
    """
    if not sources or not output:
        raise UserError("name the text and the output: regard distill TEACHER --sources FILE -o PAIRS.tsv.gz")
    check_reasons(skip or [])

    from regard.cli.bulk import corpus_progress, own_device, warn_nothing
    from regard.data.corpus.cleaning import Cleaner
    from regard.directions import direction
    from regard.distilling import distill as make_pairs
    from regard.distilling import parts_folder
    from regard.engines import load_with
    from regard.find_model import find_model, read_recipe_of
    from regard.languages import internal
    from regard.storage import read_folder

    folder = read_folder(find_model(model), hash_tensors=False)
    recipe = read_recipe_of(folder)
    if recipe.task != "translate":
        raise UserError(f"{model}: this model is made to {recipe.task}, not to translate")
    source, target = direction(recipe, None if from_ == "auto" else from_, to)  # before anything is loaded
    note = say if verbose and "RANK" not in os.environ else warn_nothing
    translator = load_with(
        model, task="translate", device=own_device(device), precision=precision, engine=engine, note=note
    )
    usual = recipe.decoding
    search: dict[str, Any] = {
        "beam": beam,
        "n_best": n_best,
        "length_penalty": length_penalty,
        "max_length": max_length,
    }
    options = search | {"batch_tokens": batch_tokens} | ({"source": source} if source else {})
    options |= {"target": target} if target else {}
    translator.translate("?", **options)  # what the model refuses is refused before anything is written
    settings = {"model": folder.hash[:16], "from": source and internal(source), "to": target and internal(target)}
    settings |= {name: getattr(usual, name) if value is None else value for name, value in search.items()}
    settings |= {"precision": precision.value, "engine": translator.engine}
    cleaner = Cleaner(
        source, target, max_length=1 << 20, max_ratio=max_ratio, skip=[*(skip or [])], keep_out=keep_out or []
    )
    try:
        make_pairs(
            translator.translate,
            sources,
            output,
            cleaner,
            settings=settings,
            options=options,
            min_score=math.log(min_probability) if min_probability else -math.inf,
            reverse=reverse,
            dropped=dropped,
            shards=shards,
            note=warn_nothing if quiet else say,
            following=lambda work: corpus_progress(work, quiet),
        )
    except KeyboardInterrupt:
        say(f"stopped; the same command goes on with what is in {parts_folder(output)}")
        raise typer.Exit(130) from None
    if not quiet:
        tell(cleaner, [output])
