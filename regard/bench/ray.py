"""Bulk work on Ray against the same without: `--on local`, on two cores with one actor, against the local process.

Counted is the time from the first finished shard to the last, in lines per second: what starting takes, here as there,
is a matter of seconds once, and is told beside it.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from regard.bench._benchmark import Benchmark, Row, Setting
from regard.bench._process import Finished, run_measured
from regard.bench._text import TextFile, made_lines, read_lines
from regard.bench.translate_file import MODEL
from regard.child_process import python_command
from regard.errors import UserError

__all__ = ["Ray"]

LINES, SHARDS = 3000, 5
GOAL = 0.9


class Ray(Benchmark):
    """Lines per second."""

    title = f"a file through {MODEL} in shards, on Ray and without"
    peer = "local"
    unit = "lines/s"
    needs = ("ray", "pyarrow")

    def rows(self, setting: Setting) -> Iterator[Row]:
        lines = read_lines(setting.source) if setting.source else made_lines(40 if setting.quick else LINES)
        name = f"{len(lines):,} lines in {SHARDS} shards"
        if not setting.wants(name):
            return
        rates: dict[str, list[float]] = {"ray": [], "local": []}
        walls: dict[str, list[float]] = {"ray": [], "local": []}
        with tempfile.TemporaryDirectory() as place:
            text = TextFile(Path(place), lines)
            for number in range(1, 1 + (1 if setting.quick else 3)):
                for way, more in (("local", []), ("ray", ["--on", "local"])):
                    setting.note(f"{name}: {way}, round {number} ...")
                    took, rate = _shard_rate(text, Path(place, f"{way}-{number}"), more)
                    rates[way].append(rate)
                    walls[way].append(took.wall)
        ours, theirs = (statistics.median(rates[way]) for way in ("ray", "local"))
        seconds = " / ".join(f"{statistics.median(walls[way]):.1f}" for way in ("ray", "local"))
        ratio = ours / theirs
        yield Row(name, ours, theirs, ratio, notes={"s with the start": seconds}, goal=f">= {GOAL}", met=ratio >= GOAL)


def _shard_rate(text: TextFile, out: Path, more: list[str]) -> tuple[Finished, float]:
    """What the command took, and its lines per second from the first finished shard to the last."""
    options = ["-m", MODEL, "--beam", "4", "--device", "cpu", "-q", "--shards", str(SHARDS)]
    files = ["--input", str(text.path), "--output", str(out)]
    took = run_measured(python_command("-m", "regard", "translate", *options, *files, *more))
    shards = sorted(out.glob("[!.]*"), key=lambda path: path.stat().st_mtime_ns)
    counts = [path.read_bytes().count(b"\n") for path in shards]
    if sum(counts) != text.lines:
        raise UserError(f"{text.lines} lines went in, but {sum(counts)} came out of {' '.join(more) or 'local work'}")
    times = [path.stat().st_mtime_ns for path in shards]
    return took, sum(counts[1:]) / ((times[-1] - times[0]) / 1e9)
