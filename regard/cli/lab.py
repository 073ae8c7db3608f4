"""`regard lab`: experiments that test the claims of the lectures."""

from __future__ import annotations

import dataclasses
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import LARGEST_SEED, Data, Device, output_folder
from regard.cli.progress import parts_bar
from regard.cli.terminal import Format, as_json, escape_control_characters, say
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.lab._experiment import Experiment
    from regard.lab._report import Record


class Size(StrEnum):
    tiny = "tiny"
    small = "small"
    full = "full"


def _names() -> list[str]:
    from regard.lab._listing import entries

    return [entry.name for entry in entries()]


def lab(
    name: Annotated[
        str | None, typer.Argument(help="The experiment; without it, all are listed.", autocompletion=_names)
    ] = None,
    size: Annotated[
        Size, typer.Option(help="tiny: seconds; small: minutes on two cores; full: for a GPU.")
    ] = Size.small,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FOLDER", callback=output_folder, help="Output folder; default: lab/NAME."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="The same seed gives the same numbers.")] = 1,
    device: Device = "auto",
    data: Data = Path("data"),
    jobs: Annotated[int, typer.Option(min=1, max=1024, help="Parallel processes.")] = 1,
    numbers: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw and judge saved numbers instead of running.")
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Write a page of documentation here instead; without a name, a list of those there."
        ),
    ] = None,
    format: Annotated[Format, typer.Option(help="Plain text, or one JSON object.")] = Format.text,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar or notes.")] = False,
) -> None:
    """Test a claim of the lectures; without a name, list them.

    Prints a table and whether the claim held, and writes the numbers and a figure (JSON, SVG, PNG).
    A claim that does not hold is a finding, not an error.
    """
    if name is None:
        if numbers or output:
            raise UserError("name the experiment; `regard lab` lists them")
        return _index(page) if page else _list(format)
    if output and page:
        raise UserError("--page writes its files into its own folder; leave out --output")

    from regard.lab._listing import kind_of, shown

    kind = kind_of(name)
    name = shown(kind)
    folder = page or output or Path("lab", name)
    try:
        from regard import registry
        from regard.lab._report import read, text, write, write_page

        experiment: Experiment = registry.create("lab", kind)
        if numbers:
            record = read(numbers, name)
        else:
            _make(folder)  # fail before minutes of work, not after
            record = _measured(experiment, name, size, seed, device, data, jobs, quiet)
        try:
            files = (write_page if page else write)(experiment, record, folder)
            told = _as_json(experiment, record) if format is Format.json else text(experiment, record.numbers)
        except KeyError as error:
            if not numbers:
                raise
            raise UserError(
                f"{numbers}: there is no {error} in these numbers; measure them anew without --numbers"
            ) from None
    except KeyboardInterrupt:
        say("stopped before the end; nothing was kept")
        raise typer.Exit(130) from None
    typer.echo("\n".join(map(escape_control_characters, told.split("\n"))))
    if not quiet:
        say("wrote " + ", ".join(map(str, files)))


def _list(format: Format) -> None:
    from regard.lab._listing import entries

    found = entries()
    if format is Format.json:
        typer.echo(as_json([dataclasses.asdict(entry) for entry in found]))
        return
    width = max((len(entry.name) for entry in found), default=0)
    lectures = max((len(entry.lecture) for entry in found), default=0)
    for entry in found:
        typer.echo(escape_control_characters(f"{entry.name:{width}}  {entry.lecture:{lectures}}  {entry.claim}"))


def _index(folder: Path) -> None:
    from regard import registry
    from regard.lab._listing import shown
    from regard.lab._report import read, write_index

    files = {kind: folder / f"{shown(kind)}.json" for kind in registry.kinds("lab")}
    found = [(registry.create("lab", kind), read(file, shown(kind))) for kind, file in files.items() if file.is_file()]
    if not found:
        raise UserError(f"there are no pages in {folder} to list; `regard lab NAME --page {folder}` writes one")
    say(f"wrote {write_index(found, folder)}")


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write to {folder}: {error.strerror}; choose another folder") from None


def _measured(
    experiment: Experiment, name: str, size: Size, seed: int, device: str, data: Path, jobs: int, quiet: bool
) -> Record:
    from regard.device import pick_device
    from regard.lab._experiment import Setting
    from regard.lab._report import measure

    note = (lambda line: None) if quiet else say
    with parts_bar(enabled=not quiet) as progress:
        setting = Setting(seed, pick_device(device), data, jobs, note, progress)
        return measure(experiment, name, size.value, setting)


def _as_json(experiment: Experiment, record: Record) -> str:
    verdict = dataclasses.asdict(experiment.verdict(record.numbers))
    return as_json(dataclasses.asdict(record) | {"verdict": verdict})
