"""The page of reproduced scores, docs/reproduced.md: the part between its marks is made of rows and records alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from regard.errors import UserError
from regard.reproduction.record import Record
from regard.reproduction.rows import Row
from regard.storage import write_file

BEGIN, END = "<!-- rows -->", "<!-- /rows -->"
Records = Mapping[str, Record | None]


def table(rows: Mapping[str, Row], records: Records) -> str:
    lines = [
        "| row | published | ours | spread | runs | validation | processor time | measured on |",
        "|---|---|---|---:|---:|---|---:|---|",
    ]
    for name, row in rows.items():
        lines.append(f"| {' | '.join([f'[`{name}`](#{name})', row.published, *cells(row, records.get(name))])} |")
    return "\n".join(lines)


def cells(row: Row, record: Record | None) -> list[str]:
    """What was found: score, spread, how many runs, the score of validation, time, device."""
    if record is None or not record.values(row.score):
        return ["not measured", "", "", "", "", ""]
    mean, spread = record.summary(row.score)
    count = len(record.values(row.score))
    shown = f"**{row.shown.format(mean)}** {row.unit}"
    runs = f"{count} of {len(row.runs)}" if count < len(row.runs) else str(count)
    validation = [run.validation[row.score] for run in record.runs if row.score in run.validation]
    chosen = row.shown.format(sum(validation) / len(validation)) if validation else ""
    return [shown, row.shown.format(spread) if count > 1 else "", runs, chosen, effort(record), record.device]


def effort(record: Record) -> str:
    """The processor time of a run, the mean of those that were measured as a whole."""
    seconds = [run.seconds for run in record.runs if run.seconds is not None]
    if not seconds:
        return ""
    each = sum(seconds) / len(seconds)
    return f"{each:.0f} s" if each < 120 else f"{each / 60:.0f} min"


def section(row: Row, record: Record | None) -> str:
    """What a row is of, its command, and what still differs."""
    kind = f"{row.folds} folds" if row.folds else f"{len(row.seeds)} seed{'s' * (len(row.seeds) > 1)}"
    lines = [f"## {row.name}", "", f"{row.title}. `regard reproduce {row.name}` trains `{row.recipe}`, {kind}.", ""]
    lines += [f"- **Published**: {row.published} ({row.source}).", f"- **Terms**: {row.terms}"]
    lines += [f"- **What still differs**: {row.differs}"]
    if record and record.values(row.score):
        each = ", ".join(row.shown.format(value) for value in record.values(row.score))
        lines += [
            f"- **Each run**: {each}; {record.parameters:,} parameters, torch {record.versions.get('torch', '?')}."
        ]
        for name in row.also:
            if record.values(name):
                lines += [f"- **Also** `{name}`: {record.summary(name)[0]:.2f} (spread {record.summary(name)[1]:.2f})."]
    return "\n".join(lines)


def generated(rows: Mapping[str, Row], records: Records) -> str:
    parts = [table(rows, records), *(section(row, records.get(name)) for name, row in rows.items())]
    return "\n\n".join(parts)


def with_rows(page: str, rows: Mapping[str, Row], records: Records, name: str) -> str:
    """The page with what is between its marks written anew."""
    before, begins, rest = page.partition(BEGIN)
    _, ends, after = rest.partition(END)
    if not begins or not ends:
        raise UserError(f"{name}: has no lines {BEGIN} and {END}, between which the rows are written")
    return f"{before}{BEGIN}\n{generated(rows, records)}\n{END}{after}"


def write_page(path: Path, rows: Mapping[str, Row], records: Records) -> None:
    try:
        page = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    write_file(path, with_rows(page, rows, records, str(path)).encode())
