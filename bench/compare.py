"""Two ways to do the same work, timed in turns, and the table that comes of it. Knows no model."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from regard.device import pick_device
from regard.errors import UserError

Work = Callable[[], object]
"""Does its work once. What it gives back is not looked at."""


@dataclass
class Row:
    """One line of a table: tokens a second, and the most GPU memory held at once (None elsewhere)."""

    name: str
    ours: float
    theirs: float
    ratio: float
    ours_gib: float | None
    theirs_gib: float | None


class Side:
    """One contestant: its work, its times, its memory."""

    def __init__(self, make: Callable[[], Work], device: torch.device, seconds: float):
        self._device = device
        before = self._allocated()
        self._work = make()
        self._run(2)  # the first calls choose kernels and allocate
        held = self._allocated() - before  # weights and optimizer: the other side holds its own, which must not count
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        start, once = self._allocated(), self._run(1)
        self.gib = (torch.cuda.max_memory_allocated(device) - start + held) / 2**30 if device.type == "cuda" else None
        # Several calls between two waits, as in real use the host runs ahead of the GPU.
        self._calls = max(1, math.ceil(seconds / once))
        self.times: list[float] = []

    def round(self) -> None:
        self.times.append(self._run(self._calls) / self._calls)

    def _run(self, calls: int) -> float:
        self._wait()
        start = time.perf_counter()
        for _ in range(calls):
            self._work()
        self._wait()
        return time.perf_counter() - start

    def _wait(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def _allocated(self) -> int:
        self._wait()
        return torch.cuda.memory_allocated(self._device) if self._device.type == "cuda" else 0


def compare(
    name: str,
    tokens: int,
    ours: Callable[[], Work],
    theirs: Callable[[], Work],
    device: torch.device,
    rounds: int,
    seconds: float = 0.3,
) -> Row:
    """Median of `rounds` in which both work in turns, `seconds` or one call each; a call makes `tokens` tokens."""
    print(f"measuring {name} ...", file=sys.stderr, flush=True)
    sides = [Side(make, device, seconds) for make in (ours, theirs)]
    for _ in range(rounds):
        for side in sides:
            side.round()
    a, b = (tokens / statistics.median(side.times) for side in sides)
    return Row(name, a, b, a / b, sides[0].gib, sides[1].gib)


def run(
    title: str,
    measure: Callable[[torch.device, bool], Iterable[Row]],
    arguments: list[str] | None,
    peer: str = "theirs",
) -> int:
    """The command line that every script has. `measure(device, quick)` gives the rows; 1 when a ratio is too low."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, ... (auto)")
    parser.add_argument("--quick", action="store_true", help="a small model, few rounds: it runs, but says little")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there too")
    parser.add_argument("--require", type=float, default=0.0, metavar="RATIO", help="exit 1 when a row is below")
    given = parser.parse_args(arguments)
    try:
        device = pick_device(given.device)
    except UserError as error:
        parser.error(str(error))
    torch.manual_seed(0)
    setting = {
        "title": title,
        "peer": peer,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "threads": torch.get_num_threads(),
        **{package: importlib.metadata.version(package) for package in ("torch", "transformers")},
    }
    rows = list(measure(device, given.quick))
    print(", ".join(f"{key} {value}" if key != "title" else str(value) for key, value in setting.items()))
    print(table(rows, peer))
    if given.json:
        given.json.write_text(json.dumps({"setting": setting, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")
    low = [row.name for row in rows if row.ratio < given.require]
    if low:
        print(f"below {given.require}: {'; '.join(low)}", file=sys.stderr)
    return 1 if low else 0


def table(rows: list[Row], peer: str) -> str:
    """Aligned columns; those for memory only where it was measured."""
    head = ["", "ours tokens/s", f"{peer} tokens/s", "ratio"]
    lines = [[row.name, f"{row.ours:,.0f}", f"{row.theirs:,.0f}", f"{row.ratio:.2f}"] for row in rows]
    if any(row.ours_gib is not None for row in rows):
        head += ["ours GiB", f"{peer} GiB"]
        lines = [[*line, f"{row.ours_gib:.2f}", f"{row.theirs_gib:.2f}"] for line, row in zip(lines, rows)]
    widths = [max(len(line[i]) for line in [head, *lines]) for i in range(len(head))]
    return "\n".join(
        "  ".join(cell.rjust(width) if i else cell.ljust(width) for i, (cell, width) in enumerate(zip(line, widths)))
        for line in [head, *lines]
    )
