"""`regard recipes`: the shipped recipes with their data and measured results.

Scores, times and parameter counts come from recipes/measured.json.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.options import Data, JsonValue
from regard.cli.terminal import Format, aligned, as_json, escape_control_characters
from regard.errors import UserError, suggestion

NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Measured:
    """The measured result of a recipe; 0 parameters and empty strings mean unknown."""

    score: str = ""
    """Metric and data, to be read after the value: `BLEU on Multi30k test_2016`."""
    value: float | str = ""
    hardware: str = ""
    time: str = ""
    parameters: int = 0
    command: str = ""

    @property
    def result(self) -> str:
        return " ".join(filter(None, (str(self.value), self.score))) or NOT_MEASURED

    @property
    def size(self) -> str:
        return f"{self.parameters:,}" if self.parameters else "-"

    @property
    def effort(self) -> str:
        return ", ".join(filter(None, (self.time, self.hardware)))


@dataclass(frozen=True)
class Entry:
    name: str
    task: str
    files: tuple[str, ...]
    """Its files of known data sets, as NAME/FILE."""
    data: str
    """The data sets in words."""
    measured: Measured

    @property
    def train(self) -> str:
        return self.measured.command or f"regard train {self.name}"

    @property
    def use(self) -> str:
        model = "--model " if self.task == "translate" else ""  # whose first argument is text
        return f"regard {self.task} {model}runs/{self.name} ..."


def _names() -> list[str]:
    from regard.config import shipped_recipes

    return list(shipped_recipes())


def recipes(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME|SECTION",
            help="Show this recipe, or with --keys this section; without it, all are listed.",
            autocompletion=_names,
        ),
    ] = None,
    keys: Annotated[
        bool, typer.Option("--keys", help="List what can be set in a recipe: type, range, default, description.")
    ] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print a JSON Schema of recipes, for editors that check TOML.")
    ] = False,
    data: Data = Path("data"),
    format: JsonValue = Format.text,
) -> None:
    """List the shipped recipes: task, data, size and score; with a name, show one and how to use it."""
    if schema or keys:
        return _settings(name or "", schema, format)
    found = entries()
    if name is not None:
        name = name.removesuffix(".toml")
        if name not in found:
            raise UserError(f"no recipe '{name}'{suggestion(name, found)}")
        return _show(found[name], data, format)
    if format is Format.json:
        typer.echo(as_json([_plain(entry) for entry in found.values()]))
        return
    rows = [("RECIPE", "TASK", "DATA", "PARAMETERS", "SCORE")]
    rows += [(one.name, one.task, one.data, one.measured.size, one.measured.result) for one in found.values()]
    typer.echo("\n".join(map(escape_control_characters, aligned(rows))))


def _settings(section: str, schema: bool, format: Format) -> None:
    from regard.settings_reference import json_schema, rows

    if schema:
        if section:
            raise UserError(f"--schema describes whole recipes; leave out '{section}'")
        typer.echo(as_json(json_schema()))
        return
    found = rows(section)
    if format is Format.json:
        typer.echo(as_json([asdict(row) for row in found]))
        return
    table = [("KEY", "TYPE", "RANGE", "DEFAULT", "DESCRIPTION")]
    table += [(row.key, row.type, row.range or "-", row.default, row.description) for row in found]
    typer.echo("\n".join(map(escape_control_characters, aligned(table))))


def entries() -> dict[str, Entry]:
    """Every shipped recipe by its name."""
    from regard.config import Recipe, shipped_recipes
    from regard.data.datasets import data_sets

    results, sets = measured(), data_sets()
    found = {}
    for name, path in shipped_recipes().items():
        tree = _tree(path)
        files = tuple(dict.fromkeys(file for file in _files(tree.get("data", {})) if file.split("/")[0] in sets))
        result = results.get(name, Measured())
        found[name] = Entry(name, str(tree.get("task", Recipe.task)), files, _in_words(tree, files), result)
    return found


def measured() -> dict[str, Measured]:
    """The results in recipes/measured.json, by recipe."""
    from regard.config import shipped_recipes

    found: dict[str, Measured] = {}
    for folder in dict.fromkeys(path.parent for path in shipped_recipes().values()):
        path = folder / "measured.json"
        try:
            content = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
            found |= {name: Measured(**entry) for name, entry in content.items()}
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise UserError(f"{path}: does not say what was measured ({error})") from None
    return found


def users_of(data_set: str) -> list[str]:
    """The recipes that use a data set."""
    return [entry.name for entry in entries().values() if any(file.startswith(f"{data_set}/") for file in entry.files)]


def _tree(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None


def _files(value: Any) -> Iterator[str]:
    """Every string in a tree that could name a file in a folder, without a column such as `#2`."""
    if isinstance(value, str):
        if "/" in value:
            yield value.rpartition("#")[0] or value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _files(item)


def _in_words(tree: dict[str, Any], files: tuple[str, ...]) -> str:
    if files:
        return ", ".join(dict.fromkeys(file.split("/")[0] for file in files))
    kind = tree.get("data", {}).get("format", {})
    kind = kind.get("kind", "") if isinstance(kind, dict) else kind
    return "synthetic" if str(kind).startswith("made_") else "your own"


def _plain(entry: Entry) -> dict[str, Any]:
    return asdict(entry) | {"train": entry.train, "use": entry.use}


def _show(entry: Entry, root: Path, format: Format) -> None:
    from regard.config import shipped_recipes

    path = shipped_recipes()[entry.name]
    missing = [file for file in entry.files if not (root / file).is_file()]
    if format is Format.json:
        typer.echo(as_json(_plain(entry) | {"text": path.read_text(encoding="utf-8"), "missing": missing}))
        return
    told = path.read_text(encoding="utf-8").rstrip().split("\n") + [""]
    rows = [("data", line) for line in _data(entry, missing, root)]
    effort = f" ({entry.measured.effort})" if entry.measured.effort else ""
    rows += [("parameters", entry.measured.size), ("measured", entry.measured.result + effort)]
    rows += [("train", entry.train), ("use", entry.use)]
    typer.echo("\n".join(map(escape_control_characters, told + aligned(rows))))


def _data(entry: Entry, missing: list[str], root: Path) -> Iterator[str]:
    if not entry.files:
        yield entry.data
    for name in dict.fromkeys(file.split("/")[0] for file in entry.files):
        lacking = [file.split("/", 1)[1] for file in missing if file.startswith(f"{name}/")]
        into = "" if root == Path("data") else f" --data {root}"
        state = f"{', '.join(lacking)} not in {root / name}: regard data get {name}{into}" if lacking else "there"
        yield f"{name}: {state}"
