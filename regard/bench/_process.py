"""Measures work in a process of its own, without other threads and with its own memory.

The parent sends the arguments as JSON and then numbers of calls; the child answers with times. Nothing heavy is
imported here, so that a child without torch stays without it.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from regard.bench import _launch
from regard.child_process import bare_python, child_environment, python_command

Work = Callable[[], object]
TURN = 0.3
"""Seconds per turn, or one call if that takes longer."""
PAUSE = 0.25
"""Seconds between turns: threads of some OpenMP libraries spin for 0.2 s after their work."""


def serve(make: Callable[..., Work]) -> None:
    """The child: prints the time of one call, then the time of each requested number of calls, then its peak memory."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of libraries must not be read as an answer
    work = make(**json.loads(sys.argv[1]))
    work()  # warm-up
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


def peak_mib(pid: int | str = "self") -> float | None:
    """The peak memory of this process or of `pid`; None where it is not available."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), None)


def children(pid: int) -> list[int]:
    """The processes that `pid` started; none where the system does not say."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])  # the name before it may hold anything
        except OSError:
            continue  # ended meanwhile
        if parent == pid:
            found.append(int(status.parent.name))
    return found


@dataclass
class Finished:
    """What a command took."""

    wall: float
    """Seconds."""
    cpu: float | None
    """Processor seconds, with those of its children; None where they are not available."""
    mib: float | None
    """Peak memory of its largest process; None where it is not available."""


def largest(runs: Sequence[Finished]) -> float | None:
    """The highest peak memory of several runs."""
    return max((one.mib for one in runs if one.mib is not None), default=None)


def run_measured(command: Sequence[str], source: Path | None = None, output: Path | None = None) -> Finished:
    """Runs a command on standard input `source`; its output goes to a file or nowhere. A failure is an error."""
    with ExitStack() as stack:
        place = stack.enter_context(tempfile.TemporaryDirectory())
        before = stack.enter_context((source or Path(os.devnull)).open("rb"))
        after = stack.enter_context((output or Path(os.devnull)).open("wb"))
        report = Path(place, "report.json")
        launch = bare_python("-I", "-S", _launch.__file__, str(report), *command)
        subprocess.run(launch, stdin=before, stdout=after, env=child_environment(), check=True)
        return Finished(**json.loads(report.read_bytes()))


class MeasuredProcess:
    """The parent. `code` is a line of Python that calls `serve`; `arguments` are passed to its `make`."""

    def __init__(self, code: str, **arguments: Any):
        self._command = python_command("-c", code, json.dumps(arguments))
        self._calls = 1
        self.times: list[float] = []

    def __enter__(self) -> MeasuredProcess:
        """Starts the process and waits until it is ready."""
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            self._command, stdin=pipe, stdout=pipe, text=True, env=child_environment(), start_new_session=True
        )  # Ctrl-C goes to the parent, which ends its children
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
        """Ends the process and returns its peak memory in MiB."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.stdin = None
        said = self._line()
        return None if said == "None" else float(said)

    def _line(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline().strip()
        if not line:
            raise RuntimeError(f"a measured process ended with code {self._process.wait()}; its last output is above")
        return line


def idle_mib(package: str) -> float | None:
    """The memory of a process that imported a package and did nothing."""
    code = f"import {package}\nfrom regard.bench._process import peak_mib\nprint(peak_mib())"
    command, environment = python_command("-c", code), child_environment()
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    words = said.stdout.split()[-1]
    return None if words == "None" else float(words)


def take_turns(processes: Sequence[MeasuredProcess], rounds: int, pause: float = PAUSE) -> None:
    """Runs each process once per round, in the same order."""
    for _ in range(rounds):
        for process in processes:
            time.sleep(pause)
            process.round()
