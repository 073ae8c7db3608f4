"""Worker processes that share the lines of one command, one per core.

The small steps of a search leave a second core mostly idle, so two processes with one thread each are nearly twice as
fast as one with two threads. Each worker runs the same command and receives every n-th line.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from threading import Thread

from regard.child_process import child_environment

MIN_LINES = 300
"""Lines for which starting another process pays off."""


def worker_count(device: str, lines: int | None) -> int:
    """The number of processes to use for this many lines: 1 for few lines or where there may be a GPU."""
    if os.name == "nt" or sys.platform == "darwin" or os.environ.get("OMP_NUM_THREADS") or "RANK" in os.environ:
        return 1
    if device != "cpu" and (device != "auto" or os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/kfd")):
        return 1
    return len(os.sched_getaffinity(0)) if lines is not None and lines >= MIN_LINES else 1


class LineWorkers:
    """`count` processes of a command, each of which answers its lines one by one."""

    def __init__(self, count: int, command: Sequence[str], warn: Callable[[str], None]) -> None:
        self._warn = warn
        pipe = subprocess.PIPE
        self._processes = [
            subprocess.Popen(
                list(command),
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                env=child_environment(OMP_NUM_THREADS="1"),
            )
            for _ in range(count)
        ]
        self._numbers: list[list[int]] = [[] for _ in range(count)]
        """The line numbers that each worker received, to translate the numbers in its warnings."""
        self._listeners = [Thread(target=self._forward_warnings, args=(i,), daemon=True) for i in range(count)]
        for listener in self._listeners:
            listener.start()

    def answer(self, lines: list[str], first: int, own: Callable[[list[str], list[int]], list[str]]) -> list[str]:
        """The answers to lines numbered from `first`; `own(lines, numbers)` answers the share of this process."""
        shares = len(self._processes) + 1
        numbers = [list(range(first + i, first + len(lines), shares)) for i in range(shares)]
        outputs: list[list[str] | None] = [None] * shares
        threads = [
            Thread(target=self._ask, args=(i - 1, lines[i::shares], numbers[i], outputs)) for i in range(1, shares)
        ]
        for thread in threads:
            thread.start()
        outputs[0] = own(lines[0::shares], numbers[0])
        for thread in threads:
            thread.join()
        result = [""] * len(lines)
        for i, output in enumerate(outputs):
            if output is None:  # the worker died: answer its lines here
                output = own(lines[i::shares], numbers[i])
            result[i::shares] = output
        return result

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def _ask(self, i: int, lines: list[str], numbers: list[int], outputs: list[list[str] | None]) -> None:
        process = self._processes[i]
        assert process.stdin and process.stdout
        self._numbers[i] += numbers
        found: list[str] = []
        reader = Thread(target=lambda: found.extend(_lines(process, len(lines))))
        reader.start()
        try:
            process.stdin.write("".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))
            process.stdin.flush()
        except OSError:
            pass  # the reader notices, too
        reader.join()
        if len(found) == len(lines):
            outputs[i + 1] = found

    def _forward_warnings(self, i: int) -> None:
        """Passes on a worker's warnings with the line numbers of the whole input."""
        stream = self._processes[i].stderr
        assert stream is not None

        def here(found: re.Match[str]) -> str:
            number = int(found[1]) - 1
            return f"line {self._numbers[i][number] if number < len(self._numbers[i]) else found[1]}"

        for line in stream:
            message = line.decode("utf-8", "replace").rstrip("\n").removeprefix("regard: ")
            self._warn(re.sub(r"^line (\d+)", here, message))


def _lines(process: subprocess.Popen[bytes], count: int) -> list[str]:
    assert process.stdout
    found = []
    for _ in range(count):
        line = process.stdout.readline()
        if not line.endswith(b"\n"):
            break
        found.append(line[:-1].decode("utf-8", "replace"))
    return found
