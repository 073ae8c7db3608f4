"""End to end: `regard translate < FILE` against a short script with CTranslate2, wall clock including start-up.

Both have the shipped model's weights, int8, and a beam of 4. CTranslate2 runs in several thread
configurations; the fastest is the peer. Its script does less: it neither normalises texts nor splits long lines.
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from regard.bench import _ctranslate2 as peer
from regard.bench._benchmark import Benchmark, Row, Setting
from regard.child_process import child_environment, python_command
from regard.errors import UserError
from regard.interchange.ctranslate2 import export

__all__ = ["TranslateFile"]

MODEL = "fr-en"
LINES = [
    "Bonjour.",
    "Où est la gare ?",
    "Nous avons perdu les clés de la maison.",
    "Elle a lu ce livre deux fois parce qu'il est court.",
    "Le train de sept heures est parti avec vingt minutes de retard.",
    "Mon frère habite à Paris depuis trois ans et n'est jamais monté sur la tour.",
    "Si le vote avait lieu demain, la plupart des habitants choisiraient de garder l'école ouverte.",
    "Le rapport montre que les petites villes ont dépensé plus pour l'eau que pour les routes, ce qui étonne.",
    "Je voudrais remercier tous ceux qui ont travaillé à ce projet, des ingénieurs aux jardiniers, pour leur patience "
    "pendant les longs mois où rien ne semblait avancer.",
]


class TranslateFile(Benchmark):
    """Lines per second."""

    title = f"a file through {MODEL}, two commands"
    peer = "CTranslate2"
    unit = "lines/s"
    needs = ("ctranslate2",)

    def rows(self, setting: Setting) -> Iterator[Row]:
        with tempfile.TemporaryDirectory() as place:
            source = setting.source or _made(Path(place, "source.txt"), 2 if setting.quick else 40)
            lines = _count(source)
            name = f"{lines:,} lines of {source.name}"
            if not setting.wants(name):
                return
            folder = export(MODEL, Path(place, "model"), "int8")
            options = ["--model", MODEL, "--beam", "4", "--device", "cpu", "-q"]
            ours = python_command("-m", "regard", "translate", *options)
            theirs = {
                peer.shown(way): python_command("-m", peer.__name__, str(folder), *map(str, way))
                for way in peer.ways(lines)
            }
            took: dict[str, list[float]] = {way: [] for way in ("ours", *theirs)}
            for _ in range(1 if setting.quick or lines > 1000 else 3):
                for way, command in {"ours": ours, **theirs}.items():
                    setting.note(f"translating {name}, {way if way == 'ours' else f'{self.peer} {way}'} ...")
                    took[way].append(_seconds(command, source, Path(place, "written.txt"), lines))
        a, *others = (statistics.median(times) for times in took.values())
        b, best = min(zip(others, theirs))
        notes = {"ours s": f"{a:.1f}", f"{self.peer} s": f"{b:.1f}", "its threads": best}
        yield Row(name, lines / a, lines / b, b / a, notes=notes)


def _made(path: Path, times: int) -> Path:
    path.write_text("".join(f"{line}\n" for line in LINES * times), encoding="utf-8")
    return path


def _count(path: Path) -> int:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    return text.count(b"\n") + (not text.endswith(b"\n"))


def _seconds(command: list[str], source: Path, written: Path, lines: int) -> float:
    start = time.perf_counter()
    with source.open("rb") as before, written.open("wb") as after:
        subprocess.run(command, stdin=before, stdout=after, env=child_environment(), check=True)
    passed = time.perf_counter() - start
    if (found := _count(written)) != lines:
        raise UserError(f"{source}: {lines} lines went in, but {found} came out of {' '.join(command)}")
    return passed
