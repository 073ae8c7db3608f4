"""The output folder of a bulk job on Ray: finished shards, as regard.bulk makes them, and what was wrong with lines.

    OUT/001-of-064.txt     a finished shard; `cat OUT/*` is the whole output, in order
    OUT/.plan.json         input files, settings and number of shards: a folder belongs to one job
    OUT/.problems.jsonl    a line per finished shard: the kinds of problems of its lines, with counts

Only the process that started the job writes here, so nodes of the cluster need not see the folder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regard.atomic_files import AtomicFile, remove_leftovers
from regard.bulk import check_same_settings, lines_before, shard_count, shard_name, write_errors
from regard.errors import UserError
from regard.locking import hold
from regard.ray.input_files import InputFile

_LINE = re.compile(r"^line (\d+)(?: \(and (\d+) more\))? ")


@dataclass(frozen=True)
class Plan:
    """The job that a folder belongs to."""

    files: tuple[InputFile, ...]
    shards: int
    settings: dict[str, Any]
    """Everything else that the output depends on."""

    @property
    def lines(self) -> int:
        return sum(file.rows for file in self.files)

    def lines_before(self, shard: int) -> int:
        return lines_before(shard, self.shards, self.lines)

    def size(self, shard: int) -> int:
        return self.lines_before(shard + 1) - self.lines_before(shard)

    def located(self, number: int) -> str:
        """Where line `number` of the whole input is, counted from 1."""
        if len(self.files) == 1:
            return f"line {number}"
        for file in self.files:
            if number <= file.rows:
                return f"{file.name}, line {number}"
            number -= file.rows
        raise IndexError(number)


class OutputFolder:
    """The folder, held by one process at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.suffix = folder, "txt"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Refuses a folder that another process works on, or that holds other files. Makes it if necessary."""
        with write_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = hold(self.folder / ".plan.lock")
        if lock is None:
            raise UserError(f"another process works on {self.folder}; wait for it or choose another folder")
        with lock:
            remove_leftovers(self.folder)
            yield

    def known_plan(self) -> Plan | None:
        """The plan that was written before; refuses a folder that holds other files."""
        path = self.folder / ".plan.json"
        try:
            tree = json.loads(path.read_text(encoding="utf-8"))
            files = tuple(InputFile(**file) for file in tree["files"])
            return Plan(files, int(tree["shards"]), dict(tree["settings"]))
        except (FileNotFoundError, NotADirectoryError):
            if self.folder.is_dir() and any(not one.name.startswith(".") for one in self.folder.iterdir()):
                raise UserError(f"{self.folder} already holds other files; choose a new folder") from None
            return None
        except (ValueError, TypeError, KeyError, RecursionError):
            raise UserError(f"{path} is not a plan of work on Ray; choose another folder") from None

    def check_same_job(
        self, plan: Plan, files: Sequence[InputFile], settings: Mapping[str, Any], shards: int | None
    ) -> None:
        check_same_settings(self.folder, plan.settings, settings, plan.shards, shards)
        before = [(file.name, file.size, file.modified) for file in plan.files]
        now = [(file.name, file.size, file.modified) for file in files]
        if before != now:
            other = next((b or a for a, b in zip(before + [None], now + [None]) if a != b), None)  # type: ignore[operator]
            raise UserError(
                f"{self.folder} was started with another input"
                + (f" ({other[0]} is not what it was)" if other else "")
                + "; choose another folder"
            )

    def start(self, files: Sequence[InputFile], settings: Mapping[str, Any], shards: int | None) -> Plan:
        """Writes the plan of a new job."""
        lines = sum(file.rows for file in files)
        plan = Plan(tuple(files), shard_count(lines, shards), dict(settings))
        with write_errors(self.folder), AtomicFile(self.folder / ".plan.json") as out:
            out.write((json.dumps(asdict(plan), indent=1) + "\n").encode())
            out.finish()
            out.replace()
        return plan

    def unfinished(self, plan: Plan) -> list[int]:
        existing = {path.name for path in self.folder.iterdir()}
        names = (shard_name(shard, plan.shards, self.suffix) for shard in range(plan.shards))
        return [shard for shard, name in enumerate(names) if name not in existing]

    def publish(self, plan: Plan, shard: int, output: bytes, problems: Mapping[str, Any]) -> None:
        """Writes a finished shard; what was wrong with its lines first, so that it is never lost."""
        if output.count(b"\n") < plan.size(shard):
            raise RuntimeError(f"shard {shard + 1}: {plan.size(shard)} lines went in, fewer came out")
        name = shard_name(shard, plan.shards, self.suffix)
        with write_errors(self.folder):
            if problems:
                with (self.folder / ".problems.jsonl").open("a", encoding="utf-8") as log:
                    log.write("\n" + json.dumps({"shard": shard, "problems": problems}) + "\n")
            with AtomicFile(self.folder / name) as out:
                out.write(output)
                out.finish()
                out.replace()

    def problems(self, plan: Plan) -> list[str]:
        """A line for each kind of problem, over all shards and all runs of the job."""
        by_shard: dict[int, dict[str, Any]] = {}
        path = self.folder / ".problems.jsonl"
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
            try:
                tree = json.loads(line)
                by_shard[int(tree["shard"])] = dict(tree["problems"])
            except (ValueError, TypeError, KeyError):  # the process was killed while it wrote this
                continue
        return told(plan, (by_shard[shard] for shard in sorted(by_shard)))


def collected(messages: Sequence[str]) -> dict[str, Any]:
    """Messages that begin with `line N`, counted by kind: [count, first line, first message]."""
    found: dict[str, Any] = {}
    for message in messages:
        where = _LINE.match(message)
        rest = message[where.end() :] if where else message
        count = 1 + int(where[2] or 0) if where else 1
        entry = found.setdefault(re.sub(r"\d[\d,.]*", "N", rest), [0, int(where[1]) if where else 0, rest])
        entry[0] += count
    return found


def told(plan: Plan, found: Iterator[dict[str, Any]]) -> list[str]:
    """The same kinds of all shards as text: the first line of each, and how many more there are."""
    total: dict[str, list[Any]] = {}
    for problems in found:
        for kind, (count, number, message) in problems.items():
            entry = total.setdefault(kind, [0, number, message])
            entry[0] += count
    return [
        (f"{plan.located(number)} " if number else "") + message + (f" (and {count - 1:,} more)" if count > 1 else "")
        for count, number, message in total.values()
    ]
