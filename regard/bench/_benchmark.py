"""The interface of benchmarks: rows, tables and pass/fail limits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import torch

Work = Callable[[], object]
"""Does the work once; the result is ignored."""


@dataclass
class Setting:
    """Options of a benchmark run."""

    device: torch.device
    quick: bool = False
    """Small models and few rounds: a smoke test."""
    only: str = ""
    """Measure only rows whose name contains this."""
    source: Path | None = None
    """A text to translate instead of a generated one."""
    target: Path | None = None
    """Its reference translation."""
    corpus: Path | None = None
    """Pairs for a translation memory."""
    note: Callable[[str], None] = lambda line: None
    """Receives progress messages."""

    def wants(self, row: str) -> bool:
        return self.only in row


@dataclass
class Row:
    """One line of a table."""

    name: str
    ours: float
    theirs: float
    verdict: float
    """The result: ours over theirs, unless the benchmark says otherwise."""
    ours_mib: float | None = None
    """Peak memory, where measured."""
    theirs_mib: float | None = None
    notes: dict[str, str] = field(default_factory=dict)
    """Additional columns."""
    goal: str = ""
    """What the row should reach, such as ">= 1.2"."""
    met: bool = True
    """Whether it does."""


class Benchmark(ABC):
    """A comparison of ours with a peer."""

    title: ClassVar[str]
    peer: ClassVar[str]
    unit: ClassVar[str] = "tokens/s"
    verdict: ClassVar[str] = "ratio"
    """The name of the result column."""
    ceiling: ClassVar[bool] = False
    """Whether `--require` is a maximum rather than a minimum."""
    needs: ClassVar[tuple[str, ...]] = ()
    """Packages of the peer."""

    @abstractmethod
    def rows(self, setting: Setting) -> Iterator[Row]: ...

    def failing(self, rows: Sequence[Row], require: float | None, memory: float | None = None) -> list[str]:
        """Messages for rows that miss `require` or exceed `memory` MiB."""
        found = []
        for row in rows:
            if require is not None and (row.verdict > require if self.ceiling else row.verdict < require):
                side = "above" if self.ceiling else "below"
                found.append(f"{row.name}: {self.verdict} {row.verdict:.2f}, {side} {require:g}")
            if memory is not None and (row.ours_mib or 0) > memory:
                found.append(f"{row.name}: {row.ours_mib:.0f} MiB, above {memory:g}")
        return found

    def as_tree(self, rows: Sequence[Row]) -> list[dict[str, Any]]:
        """The rows for a JSON file."""
        return [
            {"name": row.name, "unit": self.unit, "ours": row.ours, "theirs": row.theirs, self.verdict: row.verdict}
            | ({} if row.ours_mib is None else {"ours_mib": row.ours_mib, "theirs_mib": row.theirs_mib})
            | ({"goal": row.goal, "met": row.met} if row.goal else {})
            | row.notes
            for row in rows
        ]

    def table(self, rows: Sequence[Row]) -> str:
        """An aligned table; memory columns only if memory was measured, goals only if there are any."""
        memory = any(row.ours_mib is not None for row in rows)
        goals = any(row.goal for row in rows)
        notes = list(dict.fromkeys(name for row in rows for name in row.notes))
        head = ["", f"ours {self.unit}", f"{self.peer} {self.unit}", self.verdict] + ["goal"] * goals
        head += ["ours MiB", f"{self.peer} MiB"] * memory + notes
        lines = [head]
        for row in rows:
            cells = [row.name, _shown(row.ours), _shown(row.theirs), f"{row.verdict:.2f}"]
            cells += [row.goal and f"{row.goal} ({'met' if row.met else 'missed'})"] * goals
            cells += [_shown(row.ours_mib), _shown(row.theirs_mib)] * memory
            lines.append([*cells, *(row.notes.get(name, "") for name in notes)])
        widths = [max(map(len, column)) for column in zip(*lines)]
        return "\n".join(
            "  ".join([line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:]))])
            for line in lines
        )


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
