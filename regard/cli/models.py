"""`regard models`: the shipped and imported models and their cards."""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.terminal import Format, aligned, as_json, escape_control_characters
from regard.errors import UserError, suggestion

REMOVE = "remove"


@dataclass(frozen=True)
class Installed:
    name: str
    task: str
    languages: str
    """`fr to en`, or how many; empty for models that do not translate."""
    bytes: int
    score: str
    """The score on its card; empty without a card."""
    folder: str
    licence: str = ""
    origin: str = ""
    """Where it was imported from, with the commit; empty for the shipped models, whose cards say both."""

    @property
    def does(self) -> str:
        return f"{self.task} {self.languages}".rstrip()

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def model_names() -> list[str]:
    """For shell completion."""
    from regard.imported_models import imported_models
    from regard.pretrained import shipped_models

    return [*shipped_models(), *imported_models()]


def _completions() -> list[str]:
    return [*model_names(), REMOVE]


def models(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME | remove NAME]",
            help="Show this one's card; without it, all are listed. `remove` removes an imported one.",
            autocompletion=_completions,
        ),
    ] = None,
    format: Annotated[Format, typer.Option(help="Plain text, or one JSON value.")] = Format.text,
) -> None:
    """List the shipped and the imported models; with a name, show its card: data, licence, scores, limits."""
    from regard.imported_models import imported_models, plain_name
    from regard.pretrained import shipped_models

    shipped, others = shipped_models(), imported_models()
    match [plain_name(word) for word in words or []]:
        case []:
            _list([installed(*one) for one in shipped.items()], [imported(*one) for one in others.items()], format)
        case ["remove"]:
            raise UserError("remove: name the imported model to remove; `regard models` lists them")
        case ["remove", name]:
            _remove(name, format)
        case [name] if name in shipped:
            _show(installed(name, shipped[name]), format)
        case [name] if name in others:
            _show(imported(name, others[name]), format)
        case [name]:
            raise UserError(f"no model '{name}'{suggestion(name, [*shipped, *others])}")
        case more:
            raise UserError(f"one model at a time, not {' and '.join(more)}")


def installed(name: str, folder: Path) -> Installed:
    """Describes a model folder without loading weights."""
    from regard.config import read_recipe
    from regard.imported_models import directions_of
    from regard.pretrained import card_of, score_in

    recipe = read_recipe(folder)
    size = sum(file.stat().st_size for file in folder.iterdir())
    return Installed(name, recipe.task, directions_of(recipe), size, score_in(card_of(folder)), str(folder))


def imported(name: str, folder: Path) -> Installed:
    """Describes an imported model."""
    from regard.imported_models import read_origin

    origin = read_origin(folder)
    place = f"{origin.source}, revision {origin.revision[:12]}" if origin.revision else origin.source
    try:
        found = installed(name, folder)
    except UserError:  # one that is damaged must not hide the others
        found = Installed(name, "damaged: remove it", "", 0, "", str(folder))
    return replace(found, licence=origin.licence, origin=place)


def _list(shipped: list[Installed], others: list[Installed], format: Format) -> None:
    if format is Format.json:
        typer.echo(as_json([one.as_dict() for one in [*shipped, *others]]))
        return
    if not shipped and not others:
        typer.echo("no models are shipped with this installation")
        return
    lines = []
    if shipped:
        rows = [("MODEL", "WHAT IT DOES", "SIZE", "SCORE")]
        lines += aligned(rows + [(one.name, one.does, _megabytes(one), one.score or "-") for one in shipped])
    if others:
        head = ("IMPORTED", "WHAT IT DOES", "SIZE", "LICENCE", "ORIGIN")
        found = [(one.name, one.does, _megabytes(one), one.licence or "-", one.origin or "-") for one in others]
        lines += [*([""] if lines else []), *aligned([head, *found])]
    typer.echo("\n".join(map(escape_control_characters, lines)))


def _show(one: Installed, format: Format) -> None:
    from regard.pretrained import card_of

    card = card_of(Path(one.folder))
    if format is Format.json:
        typer.echo(as_json(one.as_dict() | {"card": card}))
        return
    told = card.rstrip().split("\n") if card else [f"# {one.name}", "", f"{one.does}; there is no card."]
    rows = [("size", f"{one.bytes / 1e6:.1f} MB"), ("folder", one.folder)]
    typer.echo("\n".join(map(escape_control_characters, [*told, "", *aligned(rows)])))


def _remove(plain: str, format: Format) -> None:
    from regard.imported_models import imported_models, in_turn
    from regard.pretrained import shipped_models

    if plain in shipped_models():
        raise UserError(f"{plain} ships with the package and cannot be removed; only imported models can")
    if plain not in imported_models():
        raise UserError(f"no imported model '{plain}'{suggestion(plain, imported_models())}")
    with in_turn(plain):
        folder = imported_models().get(plain)
        if folder is None:
            raise UserError(f"{plain} was removed by another process")
        size = sum(file.stat().st_size for file in folder.iterdir())
        aside = folder.with_name(f".{plain}.removed.tmp")
        try:
            folder.rename(aside)  # at once: nobody reads half a model
            shutil.rmtree(aside)
        except OSError as error:
            raise UserError(f"{folder}: cannot be removed ({error.strerror or error})") from None
    if format is Format.json:
        typer.echo(as_json({"removed": plain, "folder": str(folder), "bytes": size}))
    else:
        typer.echo(escape_control_characters(f"removed {plain}  {size / 1e6:.1f} MB  {folder}"))


def _megabytes(one: Installed) -> str:
    return f"{one.bytes / 1e6:4.1f} MB"
