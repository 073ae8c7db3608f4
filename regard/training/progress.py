"""What a person sees of a run, and the files that remember it. Nothing here changes what is trained.

A terminal gets a live display, anything else plain lines; both go to stderr. RUN/metrics.jsonl has a line for every log
and every validation, which the studio draws while the run goes on; RUN/tensorboard the same numbers.
"""

from __future__ import annotations

import json
import math
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO, runtime_checkable

from regard.storage import write_file
from regard.training.events import EventFile
from regard.types import Validation

if TYPE_CHECKING:
    from rich.console import RenderableType


_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Controls, line breaks, changes of writing direction and halves of characters."""
LONGEST = 2000
"""Characters of a sample that are kept."""


@dataclass
class Log:
    """A few steps summed up."""

    step: int
    epoch: int
    loss: float
    """Mean a unit over all units since the log before."""
    learning_rate: float
    norm: float
    """Of the last step's gradient, before clipping."""
    units: int
    """Since the start of the run."""
    units_per_second: float
    layers: dict[str, float] = field(default_factory=dict)
    """The norm's parts, by layer: the root of the sum of their squares is the norm."""


@runtime_checkable
class Listener(Protocol):
    """What a trainer tells about itself."""

    def start(self, step: int, steps: int) -> None: ...

    def advance(self, step: int) -> None: ...

    def log(self, log: Log) -> None: ...

    def validated(self, step: int, validation: Validation) -> None: ...

    def note(self, text: str) -> None:
        """Something a person should know: a skipped batch, a broken checkpoint, the reason of a stop."""
        ...

    def close(self) -> None: ...


class Quiet:
    """Hears all and says nothing."""

    def start(self, step: int, steps: int) -> None: ...

    def advance(self, step: int) -> None: ...

    def log(self, log: Log) -> None: ...

    def validated(self, step: int, validation: Validation) -> None: ...

    def note(self, text: str) -> None: ...

    def close(self) -> None: ...


class OtherRank(Quiet):
    """What is heard of a process that trains along with the one that reports: only what happened to it alone."""

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def note(self, text: str) -> None:
        print(f"rank {self.rank}: {visible(text)}", file=sys.stderr, flush=True)


class Reporter:
    """Shows a run on stderr and writes its metrics into the run's folder."""

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
        _forget_after(path, step)
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
        samples = [[text[:LONGEST] for text in sample] for sample in validation.samples]
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
    """Plain lines, for a log file."""

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
    """A live panel: a bar, the numbers, the last scores and a few translations."""

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
    """Guesses the time left from the steps since the start; validations count, as they will again."""

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
    """Text that cannot steer a terminal or leave its line: control characters and the like become a sign."""
    return _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text)


def scores_line(scores: dict[str, float]) -> str:
    return "  ".join(f"{name} {value:.4g}" for name, value in scores.items())


def _finite(values: Mapping[str, float]) -> dict[str, float | None]:
    """JSON has no numbers for the others."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def _forget_after(path: Path, step: int) -> None:
    """Drops the lines of steps that a resumed run will take again, and a last line that a kill cut short."""
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
