"""`regard data`: lists and downloads public data sets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import JsonValue
from regard.cli.progress import parts_bar
from regard.cli.recipes import users_of
from regard.cli.terminal import Format, aligned, as_json, escape_control_characters, say
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.data.datasets import DataSet
    from regard.data.fetching import Got


def _actions() -> list[str]:
    return ["get"]


def _names() -> list[str]:
    from regard.data.datasets import data_sets

    return list(data_sets())


def data(
    action: Annotated[
        str | None,
        typer.Argument(metavar="get", help="Download a data set; without it, all are listed.", autocompletion=_actions),
    ] = None,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Which data set.", autocompletion=_names)] = None,
    root: Annotated[
        Path,
        typer.Option(
            "--data",
            metavar="FOLDER",
            envvar="REGARD_DATA",
            help="The folder of data sets; NAME becomes a folder in it.",
        ),
    ] = Path("data"),
    mirror: Annotated[
        str | None,
        typer.Option(metavar="FOLDER|URL", help="A folder with the files, or the https URL of a mirror."),
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, max=86_400, help="Seconds to wait for a silent server.")] = 30.0,
    format: JsonValue = Format.text,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """List public data sets, or download one: regard data get NAME.

    Every file is verified by size and checksum, and an interrupted download is resumed. Nothing is extracted. Without a
    network, put the files into the data folder or name their folder with --mirror.
    """
    if action is None:
        if mirror:
            raise UserError("name the data set to get: regard data get NAME --mirror ...")
        return _list(root, format)
    if action != "get":
        raise UserError(f"no action '{action}'; write: regard data get {action if action in _names() else 'NAME'}")
    if name is None:
        raise UserError("name the data set to get; `regard data` lists them")

    from regard.data.datasets import data_set
    from regard.data.fetching import get

    wanted = data_set(name)
    try:
        with parts_bar(enabled=not quiet) as show:
            got = get(
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
