"""A contestant in a process of its own: nobody's threads spin beside it, and its memory is its own. Knows no model.

The parent tells it what to do as JSON, then how often to do it, and hears how long that took. Nothing heavy is imported
here, so that a contestant that needs no torch has none.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from regard.child_process import child_environment, python_command

Work = Callable[[], object]
TURN = 0.3
"""Seconds that a turn lasts, or one call."""
PAUSE = 0.25
"""Seconds between two turns: threads of some OpenMP libraries spin for a fifth of a second after their work is done."""


def serve(make: Callable[..., Work]) -> None:
    """The child's side: makes the work, says how long one call takes, then works when told; at the end its memory."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints must not be taken for an answer
    work = make(**json.loads(sys.argv[1]))
    work()  # the first calls choose kernels and allocate
    work()

    def run(calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            work()
        return time.perf_counter() - start

    print(run(1), file=answers, flush=True)
    for line in sys.stdin:
        print(run(int(line)), file=answers, flush=True)
    print(peak_mib(), file=answers, flush=True)


def peak_mib() -> float | None:
    """The most memory this process had at once; None where the system does not say."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), None)


class Contestant:
    """The parent's side. `code` is a line of Python that calls `serve`, and is followed by what `make` is told."""

    def __init__(self, code: str, **told: Any):
        self._command = python_command("-c", code, json.dumps(told))
        self._calls = 1
        self.times: list[float] = []

    def __enter__(self) -> Contestant:
        """Starts it and waits until it is ready."""
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            self._command, stdin=pipe, stdout=pipe, text=True, env=child_environment(), start_new_session=True
        )  # Ctrl-C is for the parent, which ends its contestants
        self._calls = max(1, math.ceil(TURN / float(self._line())))
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()

    def round(self) -> None:
        assert self._process.stdin
        self._process.stdin.write(f"{self._calls}\n")
        self._process.stdin.flush()
        self.times.append(float(self._line()) / self._calls)

    def median(self) -> float:
        return statistics.median(self.times)

    def memory(self) -> float | None:
        """Ends it; the most MiB it had at once."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.stdin = None
        said = self._line()
        return None if said == "None" else float(said)

    def _line(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline().strip()
        if not line:
            raise RuntimeError(f"a contestant ended with code {self._process.wait()}; its last words are above")
        return line


def idle_mib(package: str) -> float | None:
    """The memory of a process that imported a package and did nothing."""
    code = f"import {package}\nfrom regard.bench._alone import peak_mib\nprint(peak_mib())"
    command, environment = python_command("-c", code), child_environment()
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    words = said.stdout.split()[-1]
    return None if words == "None" else float(words)


def take_turns(contestants: Sequence[Contestant], rounds: int, pause: float = PAUSE) -> None:
    """Every contestant works once a round, in the same order."""
    for _ in range(rounds):
        for contestant in contestants:
            time.sleep(pause)
            contestant.round()
