"""The benchmarks translate-file and serve beside four processes that never rest: what a machine in use makes of them.

The peers are disturbed in the same way, in the same run. CPU seconds show whose threads spin while they wait.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.bench._benchmark import Benchmark, Row, Setting
from regard.bench._text import TextFile, made_lines, read_lines, sample
from regard.bench.serve import CLIENTS, asked_lines, serve_row
from regard.bench.translate_file import MODEL, ctranslate2_scripts, file_row
from regard.child_process import bare_python
from regard.interchange.write.ctranslate2 import export

__all__ = ["Busy"]

PROCESSES, LINES = 4, 1000
GOAL = 0.9
LOOP = """
import os, sys
while os.getppid() == int(sys.argv[1]):
    for _ in range(10**6):
        pass
"""
"""Ends by itself when its parent is gone."""


class Busy(Benchmark):
    """Lines or requests per second."""

    title = f"{MODEL} beside {PROCESSES} busy processes"
    peer = "CTranslate2"
    unit = "a second"
    needs = ("ctranslate2", "fastapi", "uvicorn")

    def rows(self, setting: Setting) -> Iterator[Row]:
        name = f"translate-file beside {PROCESSES} busy processes"
        if setting.wants(name):
            lines = read_lines(setting.source) if setting.source else made_lines(18 if setting.quick else LINES)
            with tempfile.TemporaryDirectory() as place:
                text = TextFile(Path(place), sample(lines, LINES))
                scripts = ctranslate2_scripts(export(MODEL, Path(place, "model"), "int8"), text.lines)
                with busy():
                    yield file_row(setting, f"{name}, {text.lines:,} lines", text, scripts, GOAL)
        clients = 4 if setting.quick else CLIENTS
        name = f"serve beside {PROCESSES} busy processes, {clients} clients"
        if setting.wants(name):
            with busy():
                yield serve_row(setting, name, clients, asked_lines(setting), GOAL)


@contextmanager
def busy(count: int = PROCESSES) -> Iterator[list[subprocess.Popen[bytes]]]:
    """`count` processes in an endless loop; they end with the block, or with this process, however it ends."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(count):
            processes.append(subprocess.Popen(bare_python("-I", "-S", "-c", LOOP, str(os.getpid()))))
        yield processes
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
