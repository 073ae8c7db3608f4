"""`regard train`: a recipe or two text files in, a model out."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.models import model_names
from regard.cli.options import From, OptionalDevice, To
from regard.cli.terminal import escape_control_characters, say
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.config import Recipe


def _completions(incomplete: str) -> list[tuple[str, str]]:
    """Recipes by name, and keys that can be set; after `KEY=`, the choices of that key."""
    from regard.config import shipped_recipes
    from regard.settings_reference import completions

    return [(name, "recipe") for name in shipped_recipes() if name.startswith(incomplete)] + completions(incomplete)


def train(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RECIPE KEY=VALUE",
            help="A recipe (file or name), and settings that win over it, such as training.steps=200 model.layers=4; "
            "`regard recipes --keys` lists them.",
            autocompletion=_completions,
        ),
    ] = None,
    task: Annotated[str | None, typer.Option(help="What the model is for, when no recipe says it.")] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Text to translate from: plain, .gz, .xz, .zst or a .tsv. May be repeated."),
    ] = None,
    target: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="Its translation, line by line. May be repeated.")
    ] = None,
    valid_source: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="To validate on; else some pairs are held out.")
    ] = None,
    valid_target: Annotated[list[str] | None, typer.Option(metavar="FILE", help="Its translation.")] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="The folder of data sets; without it REGARD_DATA, or data."),
    ] = None,
    from_: From = None,
    to: To = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FOLDER", help="Where the run is kept.")
    ] = None,
    resume: Annotated[Path | None, typer.Option(metavar="RUN", help="Go on with a run that was stopped.")] = None,
    start: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Fine-tune this model.", autocompletion=model_names)
    ] = None,
    tiny: Annotated[
        bool, typer.Option("--tiny", help="The recipe's form of seconds, on data made on the spot.")
    ] = False,
    folds: Annotated[
        int | None,
        typer.Option(min=2, max=1000, help="Cross-validate: train so many times, each tested on another part."),
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, max=1_000_000_000, help="The same as training.steps=N.")] = None,
    device: OptionalDevice = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No live display.")] = False,
) -> None:
    """Train a model from a recipe or two text files.

    Each line of the target file is the translation of that line of the source file.
    Ctrl-C saves and exits; --resume goes on from there.
    """
    from regard.config import Recipe, apply_overrides, read_recipe, tiny_form

    recipe, overrides = recipe_and_overrides(arguments or [])
    named = {
        "task": task,
        "data.valid_source": valid_source,
        "data.valid_target": valid_target,
        "source_language": from_,
        "target_language": to,
        "training.from": start,
        "training.steps": steps,
        "training.device": device,
    }
    # JSON's texts, numbers and lists are TOML's too.
    overrides += [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in named.items() if value is not None]
    if resume and (recipe or source or target or output or start):
        raise UserError(
            "--resume goes on with a run as it is; it takes no recipe, --source, --target, --output or --start"
        )
    named_data = any(text.startswith(("data.source", "data.train", "data.format")) for text in overrides)
    if not resume and not recipe and not source and not named_data:
        raise UserError("nothing to train on; give a recipe, or --source FILE and --target FILE")

    if data and resume:
        raise UserError("--resume goes on with the run's own data; leave out --data")
    if data and not data.is_dir():
        raise UserError(f"--data: {data} is not a folder; give the folder that holds the data sets")
    if resume:
        given: Recipe | None = None
    else:  # mistakes in a recipe are found before anything heavy is imported
        given = read_recipe(recipe) if recipe else Recipe()
        if data:
            overrides = [f"data.root={json.dumps(str(data), ensure_ascii=False)}", *overrides]
        given, overrides = apply_overrides(tiny_form(given) if tiny else given, overrides), []

    import regard

    if folds:
        if given is None:
            raise UserError("--folds begins anew; leave out --resume")
        if given.task == "translate":
            raise UserError(
                "--folds deals out labelled examples, and a translator learns from text files; "
                "data.hold_out_test=1000 holds pairs out to test on"
            )
        return _cross_validate(given, folds, output, quiet)
    run = regard.train(
        given, *overrides, source=source, target=target, folder=resume or output, resume=resume is not None, quiet=quiet
    )
    if run.reason == "interrupted":
        if run.speaks:
            say(f"stopped and saved; go on with: regard train --resume {run.folder}")
        raise typer.Exit(130)
    if not run.speaks:
        return
    scores = ", ".join(f"{name} {value:.2f}" for name, value in run.scores.items())
    typer.echo(escape_control_characters(f"model: {run.folder / 'model'}" + (f" ({scores})" if scores else "")))
    typer.echo(escape_control_characters(f"try:   regard {run.model.usage.format(model=run.folder)}"))


def _cross_validate(recipe: Recipe, folds: int, output: Path | None, quiet: bool) -> None:
    from regard.runs import cross_validate

    try:
        scores, folder = cross_validate(recipe, folds, output, quiet)
    except KeyboardInterrupt:
        say("stopped before the last fold; the runs that were finished are kept")
        raise typer.Exit(130) from None
    if os.environ.get("RANK", "0") != "0":  # of torchrun's processes only the first speaks
        return
    found = "  ".join(f"{name} {mean:.2f} (spread {spread:.2f})" for name, (mean, spread) in scores.items())
    typer.echo(escape_control_characters(f"{folds} folds, each tested on its own part: {found}"))
    typer.echo(escape_control_characters(f"runs:  {folder}"))


def recipe_and_overrides(arguments: list[str]) -> tuple[str | None, list[str]]:
    """What has an `=` (and is no file) is a setting, what has none is the recipe; there can be only one."""
    settings = [text for text in arguments if "=" in text and not Path(text).is_file()]
    recipes = [text for text in arguments if text not in settings]
    if len(recipes) > 1:
        raise UserError(f"one recipe at a time, not {' and '.join(recipes)}; settings are written key=value")
    return (recipes[0] if recipes else None), settings
