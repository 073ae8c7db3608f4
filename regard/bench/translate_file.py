"""End to end: `regard translate < FILE` against a short script with CTranslate2, wall clock including start-up.

Both have the shipped model's weights, int8, and a beam of 4. CTranslate2 runs in several thread configurations; the
fastest is the peer. Its script does less: it neither normalises texts nor splits long lines. Two further rows have what
one might use instead, on fewer lines: CTranslate2 sentence by sentence, as Argos Translate calls it, and transformers'
`generate` in float32.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from regard.bench import _ctranslate2 as peer
from regard.bench import _transformers
from regard.bench._benchmark import Benchmark, Row, Setting
from regard.bench._process import Finished, largest, run_measured
from regard.bench._text import TextFile, made_lines, read_lines, sample
from regard.child_process import python_command
from regard.errors import UserError
from regard.interchange.write.ctranslate2 import export

__all__ = ["TranslateFile"]

MODEL = "fr-en"
LINES, FEWER, FEWEST = 3000, 1000, 300
"""Lines for CTranslate2, for Argos Translate's calls and for transformers."""
GOAL = 1.2


class TranslateFile(Benchmark):
    """Lines per second."""

    title = f"a file through {MODEL}, two commands"
    peer = "peer"
    unit = "lines/s"
    needs = ("ctranslate2",)

    def rows(self, setting: Setting) -> Iterator[Row]:
        with tempfile.TemporaryDirectory() as place:
            lines = read_lines(setting.source) if setting.source else made_lines(18 if setting.quick else LINES)
            named = f"{{:,}} lines of {setting.source.name if setting.source else 'a generated text'}, beside {{}}"
            name = named.format(len(lines), "CTranslate2")
            folder = export(MODEL, Path(place, "model"), "int8")
            if setting.wants(name):
                text = TextFile(Path(place), lines)
                yield file_row(setting, name, text, ctranslate2_scripts(folder, text.lines), goal=GOAL)
            text = TextFile(Path(place), sample(lines, FEWER))
            name = named.format(text.lines, "Argos Translate's calls of CTranslate2")
            if setting.wants(name):
                scripts = {peer.shown(way): peer.script(folder, way, "argos") for way in peer.ways(1)}
                yield file_row(setting, name, text, scripts)
            text = TextFile(Path(place), sample(lines, FEWEST))
            name = named.format(text.lines, "transformers' generate")
            if not setting.wants(name):
                return
            if find_spec("transformers") is None:
                setting.note("transformers is not installed: its row is left out")
                return
            saved = _transformers.save(MODEL, Path(place, "saved"))
            scripts = {f"{count} threads": _transformers.script(saved, count) for count in {1, peer.cores()}}
            yield file_row(setting, name, text, scripts)


def ctranslate2_scripts(folder: Path, lines: int) -> dict[str, list[str]]:
    """The peer's commands by thread configuration."""
    return {peer.shown(way): peer.script(folder, way) for way in peer.ways(lines)}


def file_row(
    setting: Setting,
    name: str,
    text: TextFile,
    theirs: dict[str, list[str]],
    goal: float | None = None,
    rounds: int = 3,
) -> Row:
    """Our command and the fastest of theirs, in turns. The first round chooses."""
    options = ["--model", MODEL, "--beam", "4", "--device", "cpu", "-q"]
    commands = {"ours": python_command("-m", "regard", "translate", *options), **theirs}
    took: dict[str, list[Finished]] = {way: [] for way in commands}
    for number in range(1, 1 + (1 if setting.quick else rounds)):
        for way, command in commands.items():
            setting.note(f"{name}: {way if way == 'ours' else f'peer {way}'}, round {number} ...")
            took[way].append(_translated(command, text))
        best = min(theirs, key=lambda way: took[way][0].wall)
        commands = {"ours": commands["ours"], best: commands[best]}
    us, them = took["ours"], took[best]
    a, b = (statistics.median(one.wall for one in side) for side in (us, them))
    notes = {
        "s": f"{a:.1f} / {b:.1f}",
        "CPU s": " / ".join(f"{statistics.median(one.cpu or 0.0 for one in side):.1f}" for side in (us, them)),
        "its threads": best,
    }
    ratio = b / a
    return Row(
        name,
        text.lines / a,
        text.lines / b,
        ratio,
        largest(us),
        largest(them),
        goal="" if goal is None else f">= {goal}",
        met=goal is None or ratio >= goal,
        notes=notes,
    )


def _translated(command: list[str], text: TextFile) -> Finished:
    written = text.path.with_suffix(".out")
    took = run_measured(command, text.path, written)
    if (found := written.read_bytes().count(b"\n")) != text.lines:
        raise UserError(f"{text.path.name}: {text.lines} lines went in, but {found} came out of {' '.join(command)}")
    return took
