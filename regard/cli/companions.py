"""More processes that answer lines beside this one: a core each.

The small steps of a search leave a second core idle most of the time, so two processes with one thread each get nearly
twice as much done as one with two threads. Each runs the very command that is shared out and is given every n-th line.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from threading import Thread

from regard.child_process import child_environment

WORTH = 300
"""Lines for which starting another process pays."""


def cores_to_share(device: str, lines: int | None) -> int:
    """How many processes would share so many lines: 1 where there may be a GPU, or too little to do."""
    if os.name == "nt" or sys.platform == "darwin" or os.environ.get("OMP_NUM_THREADS") or "RANK" in os.environ:
        return 1
    if device != "cpu" and (device != "auto" or os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/kfd")):
        return 1
    return len(os.sched_getaffinity(0)) if lines is not None and lines >= WORTH else 1


class Companions:
    """`count` processes of a command, each answering the lines it is given, one line for one."""

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
        self._given: list[list[int]] = [[] for _ in range(count)]
        """The numbers of the lines that each was given, to be told apart from its own."""
        self._ears = [Thread(target=self._hear, args=(i,), daemon=True) for i in range(count)]
        for ear in self._ears:
            ear.start()

    def answer(self, lines: list[str], first: int, own: Callable[[list[str], list[int]], list[str]]) -> list[str]:
        """The answers to lines numbered from `first`: `own` is given its share and their numbers, here and now."""
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
            if output is None:  # it died: what it was asked is answered here
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
        self._given[i] += numbers
        found: list[str] = []
        reader = Thread(target=lambda: found.extend(_lines(process, len(lines))))
        reader.start()
        try:
            process.stdin.write("".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))
            process.stdin.flush()
        except OSError:
            pass  # the reader finds out, too
        reader.join()
        if len(found) == len(lines):
            outputs[i + 1] = found

    def _hear(self, i: int) -> None:
        """Passes on what a companion has to say, with the numbers that lines have here."""
        stream = self._processes[i].stderr
        assert stream is not None

        def here(found: re.Match[str]) -> str:
            number = int(found[1]) - 1
            return f"line {self._given[i][number] if number < len(self._given[i]) else found[1]}"

        for line in stream:
            said = line.decode("utf-8", "replace").rstrip("\n").removeprefix("regard: ")
            self._warn(re.sub(r"^line (\d+)", here, said))


def _lines(process: subprocess.Popen[bytes], count: int) -> list[str]:
    assert process.stdout
    found = []
    for _ in range(count):
        line = process.stdout.readline()
        if not line.endswith(b"\n"):
            break
        found.append(line[:-1].decode("utf-8", "replace"))
    return found
