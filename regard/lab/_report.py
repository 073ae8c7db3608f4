"""Reports of an experiment: a JSON record, a figure, terminal output, a page for docs/lab and the index of pages.

All but the record are pure functions of the record and the experiment, so that nothing needs to run twice.
"""

from __future__ import annotations

import dataclasses
import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from regard import __version__
from regard.errors import UserError
from regard.lab._drawing import rendered
from regard.lab._experiment import Experiment, Numbers, Setting
from regard.lab._source import place
from regard.storage import write_file


@dataclass(frozen=True)
class Record:
    """One run: the numbers, and everything needed to reproduce them."""

    experiment: str
    size: str
    seed: int
    device: str
    versions: dict[str, str]
    seconds: float
    command: str
    numbers: Numbers

    def json(self) -> str:
        """Readable JSON, with lists of plain values on one line."""
        written = json.dumps(dataclasses.asdict(self), indent=1, ensure_ascii=False, allow_nan=False)
        # A line break right after a bracket is never part of a string: JSON writes those as \n.
        return re.sub(r"\[\n[^\[\]{}]*\]", lambda list_: re.sub(r"\n *", " ", list_[0]), written) + "\n"


def measure(experiment: Experiment, name: str, size: str, setting: Setting) -> Record:
    """Runs an experiment; `name` is the one it has on the command line."""
    for wanted in experiment.data if size == "full" else ():
        if not (setting.data / wanted).is_dir():
            raise UserError(
                f"the full size reads {setting.data / wanted}, which is not there; `regard data get {wanted}` gets it, "
                "or say where data sets are with --data FOLDER"
            )
    begin = time.perf_counter()
    numbers = json.loads(json.dumps(experiment.run(size, setting), allow_nan=False))  # as if read from a file
    return Record(
        experiment=name,
        size=size,
        seed=setting.seed,
        device=_device_name(setting.device),
        versions={"regard": __version__, "torch": torch.__version__},
        seconds=round(time.perf_counter() - begin, 1),
        command=f"regard lab {name} --size {size} --seed {setting.seed}",
        numbers=numbers,
    )


def read(path: Path, name: str) -> Record:
    """The record in a file that `write` wrote for the experiment of that name."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise UserError(f"{path} is not JSON; give a file that `regard lab {name}` wrote") from None
    fields = {field.name for field in dataclasses.fields(Record)}
    if not isinstance(found, dict) or found.keys() != fields or not isinstance(found["numbers"], dict):
        raise UserError(f"{path} holds no numbers of an experiment; give a file that `regard lab {name}` wrote")
    if found["experiment"] != name:
        raise UserError(f"{path} holds the numbers of '{found['experiment']}', not of '{name}'")
    return Record(**found)


def write(experiment: Experiment, record: Record, folder: Path) -> list[Path]:
    """Writes NAME.json, NAME.svg and NAME.png; the numbers first, as they took longest."""
    path = folder / f"{record.experiment}.json"
    write_file(path, record.json().encode())
    files = {path.with_suffix(f".{kind}"): made for kind, made in _figure(experiment, record.numbers).items()}
    for file, content in files.items():
        write_file(file, content)
    return [path, *files]


def write_page(experiment: Experiment, record: Record, folder: Path) -> list[Path]:
    """Writes NAME.md, with the figure and the numbers beside it."""
    path = folder / f"{record.experiment}.md"
    write_file(path.with_suffix(".json"), record.json().encode())
    write_file(path.with_suffix(".svg"), _figure(experiment, record.numbers)["svg"])
    write_file(path, page(experiment, record).encode())
    return [path, path.with_suffix(".svg"), path.with_suffix(".json")]


def text(experiment: Experiment, numbers: Numbers) -> str:
    """The terminal output."""
    verdict = experiment.verdict(numbers)
    head, *rows = experiment.table(numbers)
    widths = [max(map(len, column)) for column in zip(head, *rows)]
    right = _numeric(rows)

    def line(cells: list[str]) -> str:
        return "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, right)).rstrip()

    places = [place(path) for path in experiment.code]
    return "\n".join(
        [
            f"{experiment.claim} ({experiment.lecture})",
            "",
            line(head),
            line(["-" * width for width in widths]),
            *map(line, rows),
            "",
            f"{'held' if verdict.held else 'did not hold'}: {verdict.sentence}",
            *([f"but: {verdict.but}"] if verdict.but else []),
            f"rule: {experiment.threshold}",
            *([f"note: {remark}"] if (remark := experiment.remark(numbers)) else []),
            "computed in:",
            *(f"  {found.file}:{found.line}  {found.name}" for found in places),
        ]
    )


def page(experiment: Experiment, record: Record) -> str:
    """The page for docs/lab. Files are named without line numbers, which change with every edit."""
    verdict = experiment.verdict(record.numbers)
    head, *rows = experiment.table(record.numbers)
    bar = ["---:" if right else "---" for right in _numeric(rows)]
    places = [place(path) for path in experiment.code]
    needed = experiment.data if record.size == "full" else ()
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    parts = [
        f"# {_title(experiment, record.experiment)}",
        f"Lecture {experiment.lecture}: *{experiment.claim}*",
        f"**{'It held' if verdict.held else 'It did not hold'}:** {verdict.sentence}."
        + (f" **But:** {verdict.but}." if verdict.but else ""),
        f'<img src="{record.experiment}.svg" alt="{_attribute(experiment.claim)}">',
        "\n".join(f"| {' | '.join(map(_cell, row))} |" for row in [head, bar, *rows]),
        f"The rule, fixed before this run: {experiment.threshold}",
        *([remark] if (remark := experiment.remark(record.numbers)) else []),
        "\n".join(["```console", *(f"$ regard data get {name}" for name in needed), f"$ {record.command}", "```"]),
        f"Measured on {record.device} in {record.seconds:.0f} s ({versions}); "
        f"[all numbers]({record.experiment}.json). Computed in "
        + ", ".join(f"[`{found.name}`](../../{found.file})" for found in places)
        + ".",
    ]
    return "\n\n".join(parts) + "\n"


def write_index(found: Sequence[tuple[Experiment, Record]], folder: Path) -> Path:
    path = folder / "README.md"
    write_file(path, index(found).encode())
    return path


def index(found: Sequence[tuple[Experiment, Record]]) -> str:
    """The index of all pages, in the order of the lectures."""
    rows = [["lecture", "claim", "did it hold?", "experiment", "measured on"]]
    for experiment, record in sorted(found, key=lambda each: (_first_number(each[0].lecture), each[1].experiment)):
        verdict = experiment.verdict(record.numbers)
        held = ("yes" if verdict.held else "**no**") + (f", but {verdict.but}" if verdict.but else "")
        page = f"[{_title(experiment, record.experiment)}]({record.experiment}.md)"
        rows.append([experiment.lecture, experiment.claim, held, page, f"{record.device}, {record.seconds:,.0f} s"])
    count = len(found)
    held_of_all = sum(experiment.verdict(record.numbers).held for experiment, record in found)
    parts = [
        "# What lectures claim, and what came of it",
        f"{held_of_all} of {count} claims held by a rule that was stated before the run. Every page has the rule, the "
        "numbers, the figure, and the command that measures it again; `regard lab NAME` without more runs a small "
        "form in at most two minutes on two cores, with no data needed. [How to run them and write your own]"
        "(../experiments.md).",
        "\n".join(f"| {' | '.join(map(_cell, row))} |" for row in [rows[0], ["---"] * len(rows[0]), *rows[1:]]),
    ]
    return "\n\n".join(parts) + "\n"


def _title(experiment: Experiment, name: str) -> str:
    return experiment.title or name.replace("-", " ").capitalize()


def _first_number(lecture: str) -> int:
    found = re.search(r"\d+", lecture)
    return int(found[0]) if found else 0


def _figure(experiment: Experiment, numbers: Numbers) -> dict[str, bytes]:
    return rendered(lambda: experiment.figure(numbers))


def _numeric(rows: list[list[str]]) -> list[bool]:
    """The columns that hold mostly numbers or dashes, which are right-aligned."""
    counts = [sum(bool(re.match(r"[-+−]?[\d.]|[-–—]?$", cell)) for cell in column) for column in zip(*rows)]
    return [count > len(rows) / 2 for count in counts]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    if device.type != "cpu":
        return device.type
    threads = torch.get_num_threads()
    return f"CPU, {threads} thread{'s' if threads > 1 else ''}"
