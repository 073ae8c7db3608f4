"""Training progress: a live display in a terminal, plain log lines elsewhere (both on stderr), and metrics files.

RUN/metrics.jsonl gets a line per log entry and validation, which the studio plots during the run; RUN/tensorboard gets
the same numbers. Nothing here changes what is trained.
"""

from __future__ import annotations

import json
import math
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from regard.storage import write_file
from regard.training.listener import Log, Quiet
from regard.training.tensorboard_events import EventFile
from regard.types import Validation

if TYPE_CHECKING:
    from rich.console import RenderableType


_INVISIBLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, line breaks, bidirectional overrides and lone surrogates."""
MAX_SAMPLE_CHARACTERS = 2000
"""Longer samples are cut in metrics.jsonl."""


class OtherRank(Quiet):
    """The listener of ranks other than 0: prints notes, which concern that rank alone, and nothing else."""

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def note(self, text: str) -> None:
        print(f"rank {self.rank}: {visible(text)}", file=sys.stderr, flush=True)


class Reporter:
    """Shows progress on stderr and writes metrics into the run's folder."""

    def __init__(self, folder: Path, *, unit: str = "tokens", stream: TextIO | None = None, live: bool | None = None):
        self.folder = Path(folder)
        self.stream = stream or sys.stderr
        self.display: Display | Lines = Lines(self.stream, unit)
        if self.stream.isatty() if live is None else live:
            self.display = Display(self.stream, unit)
        self._metrics: TextIO | None = None
        self._events: EventFile | None = None

    def start(self, step: int, steps: int) -> None:
        path = self.folder / "metrics.jsonl"
        _truncate_after(path, step)
        self._metrics = path.open("a", encoding="utf-8")
        self._events = EventFile(self.folder / "tensorboard", step)
        self.display.start(step, steps)

    def advance(self, step: int) -> None:
        self.display.advance(step)

    def log(self, log: Log) -> None:
        values = asdict(log)
        layers = {name: float(f"{norm:.6g}") for name, norm in values.pop("layers").items()}
        self._record(values.pop("step"), values, "train", layers=layers)
        self.display.log(log)

    def validated(self, step: int, validation: Validation) -> None:
        scores = {f"valid_{name}": value for name, value in validation.scores.items()}
        samples = [[text[:MAX_SAMPLE_CHARACTERS] for text in sample] for sample in validation.samples]
        named = [dict(zip(("source", "output", "reference"), sample, strict=True)) for sample in samples]
        self._record(step, scores, "valid", samples=named)
        self.display.validated(step, validation)

    def note(self, text: str) -> None:
        self.display.note(visible(text))

    def close(self) -> None:
        self.display.close()
        for file in (self._metrics, self._events):
            if file:
                file.close()
        self._metrics = self._events = None

    def _record(
        self,
        step: int,
        values: dict[str, Any],
        group: str,
        layers: Mapping[str, float] | None = None,
        samples: list[dict[str, str]] | None = None,
    ) -> None:
        if self._metrics and self._events:
            line: dict[str, Any] = {"step": step, "time": round(time.time(), 3), **_finite(values)}
            line |= {"layers": _finite(layers)} if layers else {}
            line |= {"samples": samples} if samples else {}
            self._metrics.write(json.dumps(line) + "\n")
            self._metrics.flush()
            shown = {f"{group}/{name.removeprefix('valid_')}": float(value) for name, value in values.items()}
            self._events.scalars(step, shown | {f"gradient/{name}": value for name, value in (layers or {}).items()})


class Lines:
    """Plain lines, for log files and pipes."""

    def __init__(self, stream: TextIO, unit: str) -> None:
        self.stream = stream
        self.unit = unit
        self.clock = Clock()

    def start(self, step: int, steps: int) -> None:
        self.clock.start(step, steps)

    def advance(self, step: int) -> None:
        self.clock.advance(step)

    def log(self, log: Log) -> None:
        self._print(
            f"step {log.step}/{self.clock.steps}  epoch {log.epoch}  loss {log.loss:.4f}  "
            f"lr {log.learning_rate:.2e}  norm {log.norm:.2f}  {log.units_per_second:,.0f} {self.unit}/s  "
            f"left {self.clock.left()}"
        )

    def validated(self, step: int, validation: Validation) -> None:
        self._print(f"step {step}  validation: {scores_line(validation.scores)}")
        for sample in validation.samples:
            for name, text in zip(("source", "output", "reference"), sample, strict=True):
                self._print(f"  {name:9}  {visible(text)}")

    def note(self, text: str) -> None:
        self._print(text)

    def close(self) -> None: ...

    def _print(self, text: str) -> None:
        print(text, file=self.stream, flush=True)


class Display:
    """A live panel: progress bar, current numbers, latest scores and a few sample outputs."""

    def __init__(self, stream: TextIO, unit: str) -> None:
        from rich.console import Console
        from rich.live import Live

        self.unit = unit
        self.clock = Clock()
        self._log: Log | None = None
        self._step = 0
        self._scores: list[tuple[int, dict[str, float]]] = []
        self._samples: list[tuple[str, str, str]] = []
        self._console = Console(file=stream)
        self._live = Live(console=self._console, get_renderable=self._render, refresh_per_second=4)

    def start(self, step: int, steps: int) -> None:
        self._step = step
        self.clock.start(step, steps)
        self._live.start()

    def advance(self, step: int) -> None:
        self._step = step
        self.clock.advance(step)

    def log(self, log: Log) -> None:
        self._log = log

    def validated(self, step: int, validation: Validation) -> None:
        self._scores = [*self._scores, (step, validation.scores)][-5:]
        self._samples = validation.samples

    def note(self, text: str) -> None:
        from rich.text import Text

        self._console.print(Text(text, style="yellow"))

    def close(self) -> None:
        if self._live.is_started:
            self._live.refresh()
            self._live.stop()

    def _render(self) -> RenderableType:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        head = Table.grid(padding=(0, 1))
        head.add_row(
            ProgressBar(total=max(1, self.clock.steps), completed=self._step, width=30),
            Text(f"step {self._step:,} of {self.clock.steps:,}", style="bold"),
            Text(f"left {self.clock.left()}"),
        )
        parts: list[RenderableType] = [head]
        if self._log:
            numbers = Text()
            for name, value in (
                ("loss", f"{self._log.loss:.4f}"),
                (f"{self.unit}/s", f"{self._log.units_per_second:,.0f}"),
                ("learning rate", f"{self._log.learning_rate:.2e}"),
                ("norm", f"{self._log.norm:.2f}"),
                ("epoch", str(self._log.epoch)),
            ):
                numbers.append(f"{name} ", style="dim").append(f"{value}   ")
            parts.append(numbers)
        for step, scores in self._scores:
            parts.append(Text(f"validation at {step:,}: {scores_line(scores)}", style="green"))
        if self._samples:
            table = Table.grid(padding=(0, 1))
            for source, output, reference in self._samples:
                table.add_row(Text("source", style="dim"), Text(visible(source)))
                table.add_row(Text("output", style="dim"), Text(visible(output), style="bold"))
                table.add_row(Text("reference", style="dim"), Text(visible(reference)))
            parts.append(table)
        return Group(*parts)


class Clock:
    """Estimates the time left from the steps taken so far, validations included."""

    def __init__(self) -> None:
        self.steps = self._first = self._step = 0
        self._began = time.monotonic()

    def start(self, step: int, steps: int) -> None:
        self.steps, self._first, self._step = steps, step, step
        self._began = time.monotonic()

    def advance(self, step: int) -> None:
        self._step = step

    def left(self) -> str:
        done = self._step - self._first
        if done <= 0:
            return "?"
        seconds = int((time.monotonic() - self._began) / done * max(0, self.steps - self._step))
        return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def visible(text: str) -> str:
    """Escape text for terminal output: control characters and line breaks become U+FFFD."""
    return _INVISIBLE.sub("\N{REPLACEMENT CHARACTER}", text)


def scores_line(scores: dict[str, float]) -> str:
    return "  ".join(f"{name} {value:.4g}" for name, value in scores.items())


def _finite(values: Mapping[str, float]) -> dict[str, float | None]:
    """NaN and infinity become null: JSON has no such numbers."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def _truncate_after(path: Path, step: int) -> None:
    """Drops lines of steps that a resumed run takes again, and a last line that a kill cut short."""
    if not path.exists():
        return
    kept = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            if json.loads(line)["step"] <= step:
                kept.append(line + "\n")
        except (ValueError, KeyError, TypeError):
            continue
    write_file(path, "".join(kept).encode())
