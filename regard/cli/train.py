"""`regard train`: trains a model from a recipe or two text files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.models import model_names
from regard.cli.options import From, OptionalDevice, To, output_folder
from regard.cli.terminal import escape_control_characters, say
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.config import Recipe


def _completions(incomplete: str) -> list[tuple[str, str]]:
    """Recipe names and keys; after `KEY=`, the choices of that key."""
    from regard.config import shipped_recipes
    from regard.settings_reference import completions

    return [(name, "recipe") for name in shipped_recipes() if name.startswith(incomplete)] + completions(incomplete)


def train(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RECIPE KEY=VALUE",
            help="A recipe (file or name), and settings that override it, such as training.steps=200 model.layers=4; "
            "`regard recipes --keys` lists them.",
            autocompletion=_completions,
        ),
    ] = None,
    task: Annotated[str | None, typer.Option(help="The task, if there is no recipe.")] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Source text: plain, .gz, .xz, .zst or a .tsv. May be repeated."),
    ] = None,
    target: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="Its translation, line by line. May be repeated.")
    ] = None,
    valid_source: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="Validation source; default: held-out pairs.")
    ] = None,
    valid_target: Annotated[list[str] | None, typer.Option(metavar="FILE", help="Its translation.")] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="The folder of data sets; default: REGARD_DATA, or data."),
    ] = None,
    from_: From = None,
    to: To = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FOLDER", callback=output_folder, help="Folder of the run; default: runs/NAME."
        ),
    ] = None,
    resume: Annotated[Path | None, typer.Option(metavar="RUN", help="Resume a run.")] = None,
    start: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Fine-tune this model.", autocompletion=model_names)
    ] = None,
    memory: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --start: learn these corrections, a file of regard serve --suggestions or a .tsv of pairs. "
            "--valid-source names text of which the rest is checked.",
        ),
    ] = None,
    tiny: Annotated[bool, typer.Option("--tiny", help="The recipe's tiny form: seconds, on synthetic data.")] = False,
    folds: Annotated[
        int | None,
        typer.Option(min=2, max=1000, help="Cross-validation with this many folds."),
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, max=1_000_000_000, help="The same as training.steps=N.")] = None,
    device: OptionalDevice = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No live display.")] = False,
) -> None:
    """Train a model from a recipe or two text files.

    Each line of the target file is the translation of that line of the source file.
    Ctrl-C saves and exits; --resume continues from there.
    """
    if memory:
        from regard.cli.train_memory import train_memory

        if not start or source or target or resume or tiny or folds or task or data:
            raise UserError("--memory teaches a model corrections; give it with --start MODEL, and without other data")
        settings = [*(arguments or []), *([f"training.steps={steps}"] if steps else [])]
        return train_memory(start, memory, settings, from_, to, valid_source, valid_target, output, device, quiet)
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
    # JSON strings, numbers and lists are valid TOML.
    overrides += [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in named.items() if value is not None]
    if resume and (recipe or source or target or output or start):
        raise UserError(
            "--resume goes on with a run as it is; it takes no recipe, --source, --target, --output or --start"
        )
    named_data = any(text.startswith(("data.source", "data.pairs", "data.train", "data.format")) for text in overrides)
    if not resume and not recipe and not source and not named_data:
        raise UserError("nothing to train on; give a recipe, or --source FILE and --target FILE")

    if data and resume:
        raise UserError("--resume goes on with the run's own data; leave out --data")
    if data and not data.is_dir():
        raise UserError(f"--data: {data} is not a folder; give the folder that holds the data sets")
    if resume:
        given: Recipe | None = None
    else:  # find mistakes in a recipe before importing torch
        given = read_recipe(recipe) if recipe else Recipe()
        if data:
            overrides = [f"data.root={json.dumps(str(data), ensure_ascii=False)}", *overrides]
        given, overrides = apply_overrides(tiny_form(given) if tiny else given, overrides), []

    import regard
    from regard.directions import directions, is_multilingual

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
    usage = run.model.usage.format(model=run.folder)
    if run.model.recipe.task == "translate" and is_multilingual(run.model.recipe):
        usage = usage.replace("translate ", f"translate --to {directions(run.model.recipe)[0][1]} ", 1)
    typer.echo(escape_control_characters(f"try:   regard {usage}"))


def _cross_validate(recipe: Recipe, folds: int, output: Path | None, quiet: bool) -> None:
    from regard.runs import cross_validate

    try:
        scores, folder = cross_validate(recipe, folds, output, quiet)
    except KeyboardInterrupt:
        say("stopped before the last fold; the runs that were finished are kept")
        raise typer.Exit(130) from None
    if os.environ.get("RANK", "0") != "0":  # only the first of torchrun's processes reports
        return
    found = "  ".join(f"{name} {mean:.2f} (spread {spread:.2f})" for name, (mean, spread) in scores.items())
    typer.echo(escape_control_characters(f"{folds} folds, each tested on its own part: {found}"))
    typer.echo(escape_control_characters(f"runs:  {folder}"))


def recipe_and_overrides(arguments: list[str]) -> tuple[str | None, list[str]]:
    """Arguments with `=` that are not files are settings; of the others there can be one, the recipe."""
    from regard.recipe import Recipe
    from regard.setting import all_keys

    settings = [text for text in arguments if "=" in text and not Path(text).is_file()]
    recipes = [text for text in arguments if text not in settings]
    for text in recipes:
        if not Path(text).exists() and any(text == path for path, _ in all_keys(Recipe)):
            raise UserError(f"{text}: is a setting without a value; write {text}=VALUE")
    for text in settings:
        if text.startswith("tiny."):
            raise UserError(f"{text}: [tiny] is a section of recipe files; write --tiny {text.removeprefix('tiny.')}")
    if len(recipes) > 1:
        raise UserError(f"one recipe at a time, not {' and '.join(recipes)}; settings are written key=value")
    return (recipes[0] if recipes else None), settings
