"""How long one sentence takes from the shell, beyond what importing torch takes: starting, loading, translating."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from regard.bench._alone import environment
from regard.bench._benchmark import Benchmark, Row, Setting

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
        ours = [sys.executable, "-m", "regard", "translate", "--device", str(setting.device), SENTENCE]
        theirs = [sys.executable, "-c", "import torch"]
        times = [(seconds(ours), seconds(theirs)) for _ in range(1 if setting.quick else 8)]
        a, b = map(statistics.median, zip(*times[1:] or times))  # the first round reads the files from the disk
        yield Row(name, a, b, a - b)


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, env=environment(), capture_output=True, check=True)
    return time.perf_counter() - start
