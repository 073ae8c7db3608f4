"""One sentence from the shell: seconds over importing CTranslate2 and sentencepiece, and memory beside a bare script.

The bare script translates the same sentence with CTranslate2, sentencepiece and the exported model. The first round,
which reads files from the disk and converts the model, does not count.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from regard.bench import _ctranslate2 as peer
from regard.bench._benchmark import Benchmark, Row, Setting
from regard.bench._process import Finished, largest, run_measured
from regard.bench._text import TextFile
from regard.bench.translate_file import MODEL
from regard.child_process import bare_python, python_command
from regard.interchange.write.ctranslate2 import export

__all__ = ["ColdStart"]

SENTENCE = "Je suis étudiant."
IMPORTS = "import ctranslate2, sentencepiece"
SECONDS_OVER, SECONDS, MIB = 0.3, 0.5, 120e6 / 2**20
"""The goals: over the imports, at any time, and peak memory."""


class ColdStart(Benchmark):
    """Seconds."""

    title = f"regard translate '{SENTENCE}'"
    peer = "peer"
    unit = "s"
    verdict = "seconds over"
    ceiling = True
    needs = ("ctranslate2",)

    def rows(self, setting: Setting) -> Iterator[Row]:
        names = f"beside {IMPORTS}", "beside a bare script"
        if not any(map(setting.wants, names)):
            return
        with tempfile.TemporaryDirectory() as place:
            text = TextFile(Path(place), [SENTENCE])
            folder = export(MODEL, Path(place, "model"), "int8")
            ours = python_command("-m", "regard", "translate", "--device", str(setting.device), "-m", MODEL, SENTENCE)
            commands = [ours, bare_python("-c", IMPORTS), peer.script(folder, (1, 1))]
            took: list[list[Finished]] = [[], [], []]
            rounds = 2 if setting.quick else 16
            for number in range(rounds):
                setting.note(f"{self.title}: round {number + 1} of {rounds} ...")
                for command, found in zip(commands, took):
                    found.append(run_measured(command, text.path))
        us, imports, script = (found[1:] for found in took)
        slowest = max(one.wall for one in us)
        if setting.wants(names[0]):
            row = _row(names[0], us, imports, f"<= {SECONDS_OVER} over, never above {SECONDS} s")
            row.met = row.verdict <= SECONDS_OVER and slowest <= SECONDS
            row.notes = {"slowest s": f"{slowest:.2f}"}
            yield row
        if setting.wants(names[1]):
            row = _row(names[1], us, script, f"<= {MIB:.0f} MiB")
            row.met = (row.ours_mib or 0.0) <= MIB
            yield row


def _row(name: str, us: list[Finished], them: list[Finished], goal: str) -> Row:
    a, b = (statistics.median(one.wall for one in runs) for runs in (us, them))
    return Row(name, a, b, a - b, largest(us), largest(them), goal=goal)
