"""`regard models`: the shipped models and their cards."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.terminal import Format, aligned, as_json, escape_control_characters
from regard.errors import UserError, suggestion


@dataclass(frozen=True)
class Installed:
    name: str
    task: str
    languages: str
    """`fr to en`; empty for models that do not translate."""
    bytes: int
    score: str
    """The score on its card; empty without a card."""
    folder: str

    @property
    def does(self) -> str:
        return f"{self.task} {self.languages}".rstrip()


def model_names() -> list[str]:
    """For shell completion."""
    from regard.pretrained import shipped_models

    return list(shipped_models())


def models(
    name: Annotated[
        str | None, typer.Argument(help="Show this one's card; without it, all are listed.", autocompletion=model_names)
    ] = None,
    format: Annotated[Format, typer.Option(help="Plain text, or one JSON value.")] = Format.text,
) -> None:
    """List the models that ship with the package; with a name, show its card: data, licence, scores, limits."""
    from regard.pretrained import shipped_models

    found = shipped_models()
    if name is not None:
        if name not in found:
            raise UserError(f"no model '{name}'{suggestion(name, found)}")
        return _show(installed(name, found[name]), format)
    every = [installed(one, folder) for one, folder in found.items()]
    if format is Format.json:
        typer.echo(as_json([asdict(one) for one in every]))
        return
    if not every:
        typer.echo("no models are shipped with this installation")
        return
    rows = [("MODEL", "WHAT IT DOES", "SIZE", "SCORE")]
    rows += [(one.name, one.does, f"{one.bytes / 1e6:4.1f} MB", one.score or "-") for one in every]
    typer.echo("\n".join(map(escape_control_characters, aligned(rows))))


def installed(name: str, folder: Path) -> Installed:
    """Describes a model folder without loading weights."""
    from regard.config import read_recipe
    from regard.pretrained import card_of, score_in

    recipe = read_recipe(folder)
    languages = f"{recipe.source_language} to {recipe.target_language}" if recipe.target_language else ""
    size = sum(file.stat().st_size for file in folder.iterdir())
    return Installed(name, recipe.task, languages, size, score_in(card_of(folder)), str(folder))


def _show(one: Installed, format: Format) -> None:
    from regard.pretrained import card_of

    card = card_of(Path(one.folder))
    if format is Format.json:
        typer.echo(as_json(asdict(one) | {"card": card}))
        return
    told = card.rstrip().split("\n") if card else [f"# {one.name}", "", f"{one.does}; there is no card."]
    rows = [("size", f"{one.bytes / 1e6:.1f} MB"), ("folder", one.folder)]
    typer.echo("\n".join(map(escape_control_characters, [*told, "", *aligned(rows)])))
