"""`regard data`: lists and downloads public data sets, cleans and joins parallel text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.command import Command, Group
from regard.cli.data_clean import clean
from regard.cli.data_join import join
from regard.cli.options import JsonValue
from regard.cli.progress import parts_bar
from regard.cli.recipes import users_of
from regard.cli.terminal import Format, aligned, as_json, escape_control_characters, say
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.data.datasets import DataSet
    from regard.data.fetching import Got


def _names() -> list[str]:
    from regard.data.datasets import data_sets

    return list(data_sets())


class _DataGroup(Group):
    """The list, or an action, whose options may also stand before it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        action = next((word for option, word in self._split(args, {}) if option is None and word), "")
        if action in self.commands:
            args = [action, *(word for place, word in enumerate(args) if place != args.index(action))]
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands:
            raise UserError(
                f"no action '{args[0]}'; write: regard data get {args[0] if args[0] in _names() else 'NAME'}"
            )
        self.callback = None  # no list
        return super().resolve_command(ctx, args)


data = typer.Typer(cls=_DataGroup, invoke_without_command=True, rich_markup_mode=None)
Root = Annotated[
    Path,
    typer.Option(
        "--data", metavar="FOLDER", envvar="REGARD_DATA", help="The folder of data sets; NAME becomes a folder in it."
    ),
]
Mirror = Annotated[
    str | None, typer.Option(metavar="FOLDER|URL", help="A folder with the files, or the https URL of a mirror.")
]
DATA = Path("data")


@data.callback()
def listing(root: Root = DATA, mirror: Mirror = None, format: JsonValue = Format.text) -> None:
    """List public data sets, download one (get), clean parallel text of your own (clean), or join
    two corpora through their shared language (join)."""
    if mirror:
        raise UserError("name the data set to get: regard data get NAME --mirror ...")
    _list(root, format)


@data.command(cls=Command)
def get(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Which data set.", autocompletion=_names)] = None,
    root: Root = DATA,
    mirror: Mirror = None,
    timeout: Annotated[float, typer.Option(min=0.1, max=86_400, help="Seconds to wait for a silent server.")] = 30.0,
    format: JsonValue = Format.text,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Download a data set.

    Every file is verified by size and checksum, and an interrupted download is resumed. Nothing is extracted. Without a
    network, put the files into the data folder or name their folder with --mirror.
    """
    if name is None:
        raise UserError("name the data set to get; `regard data` lists them")

    from regard.data.datasets import data_set
    from regard.data.fetching import get as fetch

    wanted = data_set(name)
    try:
        with parts_bar(enabled=not quiet) as show:
            got = fetch(
                wanted,
                root,
                mirror,
                lambda done, total, what: show(done // 1000, total // 1000, f"{what}, kB"),
                timeout,
            )
    except KeyboardInterrupt:
        say("stopped; the same command resumes the download")
        raise typer.Exit(130) from None
    _tell(wanted, got, root, format)


data.command(cls=Command)(clean)
data.command(cls=Command)(join)


def _list(root: Path, format: Format) -> None:
    from regard.data.datasets import data_sets
    from regard.data.fetching import present

    found = [(one, len(present(one, root))) for one in data_sets().values()]
    if format is Format.json:
        entries = [
            {"name": one.name, "title": one.title, "use": one.use, "licence": one.licence, "origin": one.origin}
            | {"bytes": one.size, "files": [file.name for file in one.files], "there": there}
            for one, there in found
        ]
        typer.echo(as_json(entries))
        return
    rows = [("NAME", "SIZE", "THERE", "FOR", "LICENCE")]
    for one, there in found:
        whole = "yes" if there == len(one.files) else f"{there} of {len(one.files)}" if there else "no"
        rows.append((one.name, _size(one.size), whole, one.use, one.licence))
    typer.echo("\n".join(map(escape_control_characters, aligned(rows))))


def _tell(wanted: DataSet, got: list[Got], root: Path, format: Format) -> None:
    recipes = users_of(wanted.name)
    folder = root / wanted.name
    if format is Format.json:
        files = [{"name": one.file.name, "how": one.how} for one in got]
        typer.echo(
            as_json(
                {
                    "name": wanted.name,
                    "folder": str(folder),
                    "files": files,
                    "licence": wanted.licence,
                    "recipes": recipes,
                }
            )
        )
        return
    ways = {one.how: 0 for one in got}
    for one in got:
        ways[one.how] += 1
    told = [f"{folder}: {len(got)} whole files ({', '.join(f'{count} {how}' for how, count in ways.items())})"]
    told += [f"licence: {wanted.licence}"]
    root_key = "" if root == Path("data") else f" --data {root}"
    told += [f"try: regard train {recipe}{root_key}" for recipe in recipes]
    typer.echo("\n".join(map(escape_control_characters, told)))


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"
