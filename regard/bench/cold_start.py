"""Time to translate one sentence from the shell, minus the import of torch: start-up, loading, translation."""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Iterator

from regard.bench._benchmark import Benchmark, Row, Setting
from regard.child_process import child_environment, python_command

__all__ = ["ColdStart"]

SENTENCE = "Je suis étudiant."


class ColdStart(Benchmark):
    """Seconds."""

    title = "one sentence from the shell"
    peer = "import torch"
    unit = "s"
    verdict = "seconds over"
    ceiling = True

    def rows(self, setting: Setting) -> Iterator[Row]:
        name = f"regard translate '{SENTENCE}'"
        if not setting.wants(name):
            return
        setting.note(f"measuring {name} ...")
        ours = python_command("-m", "regard", "translate", "--device", str(setting.device), SENTENCE)
        theirs = python_command("-c", "import torch")
        times = [(seconds(ours), seconds(theirs)) for _ in range(1 if setting.quick else 8)]
        a, b = map(statistics.median, zip(*times[1:] or times))  # the first round reads the files from the disk
        yield Row(name, a, b, a - b)


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, env=child_environment(), capture_output=True, check=True)
    return time.perf_counter() - start
