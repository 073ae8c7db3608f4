"""`regard reproduce`: published scores, measured again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import Data, Device, JsonValue, Quiet, output_folder
from regard.cli.terminal import Format, aligned, as_json, escape_control_characters, say
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.reproduction.record import Record
    from regard.reproduction.rows import Row

RUNS = Path("runs/reproduced")


def _names() -> list[str]:
    from regard.reproduction.rows import rows

    return list(rows())


def reproduce(
    name: Annotated[
        list[str] | None, typer.Argument(metavar="NAME...", help="Rows to measure.", autocompletion=_names)
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Measure all rows.")] = False,
    tiny: Annotated[
        bool,
        typer.Option("--tiny", help="Only rehearse: train the recipe's tiny form in seconds; nothing is recorded."),
    ] = False,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", callback=output_folder, help="Folder of the runs.")
    ] = RUNS,
    records: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder of the records; default: OUTPUT/records.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write this page anew, from the records alone.")
    ] = None,
    data: Data = Path("data"),
    device: Device = "auto",
    format: JsonValue = Format.text,
    quiet: Quiet = False,
) -> None:
    """Measure published scores again; without a name, list them.

    Each row is trained by its recipe, once per seed or fold, and tested once. What is finished is kept: a measurement
    that was stopped goes on where it was.
    """
    from regard.reproduction.record import read_record
    from regard.reproduction.rows import row_of, rows

    if every and name:
        raise UserError("--all measures every row; leave out the names")
    if tiny and page:
        raise UserError("--tiny records nothing that a page could show; leave out --page")
    known = rows()
    chosen = [row_of(one) for one in (known if every else name or [])]
    place = records or output / "records"
    try:
        if tiny:
            return _rehearse(chosen, output / "tiny", quiet)
        for row in chosen:
            from regard.reproduction.measuring import measure

            measure(row, output, place, data, device=device, quiet=quiet, note=(lambda line: None) if quiet else say)
    except KeyboardInterrupt:
        say("stopped; what is finished is kept, and the same command goes on")
        raise typer.Exit(130) from None
    found = {row.name: read_record(place, row.name) for row in (chosen or known.values())}
    _show({row: known[row] for row in found}, found, format)
    if page:
        from regard.reproduction.page import write_page

        write_page(page, known, {row: read_record(place, row) for row in known})
        say(f"wrote {page}")


def _rehearse(chosen: list[Row], folder: Path, quiet: bool) -> None:
    from regard.reproduction.measuring import rehearse

    if not chosen:
        raise UserError("--tiny rehearses rows; name them, or --all")
    for row in chosen:
        scores = rehearse(row, folder, quiet)
        shown = "  ".join(f"{name} {value:.2f}" for name, value in scores.items())
        typer.echo(escape_control_characters(f"{row.name}  {row.recipe}, tiny: {shown}"))


def _show(rows: dict[str, Row], records: dict[str, Record | None], format: Format) -> None:
    if format is Format.json:
        import dataclasses

        tree = [
            {"row": name, "published": row.published, "score": row.score, "unit": row.unit}
            | {"record": dataclasses.asdict(record) if (record := records[name]) else None}
            for name, row in rows.items()
        ]
        typer.echo(as_json(tree))
        return
    from regard.reproduction.page import cells

    lines = [("row", "published", "ours", "spread", "runs")]
    for name, row in rows.items():
        score, spread, runs, *_ = cells(row, records[name])
        lines.append((name, row.published, score.replace("**", ""), spread, runs))
    for line in aligned(lines):
        typer.echo(escape_control_characters(line))
