"""The .ts files of the UEA archive: one example per line, channels separated by `:`, values by `,`, the class last."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from regard.data.bounded import check_size
from regard.data.corpus.reading import text_lines
from regard.data.format._base import Example, Format, Sample
from regard.errors import UserError, suggestion

__all__ = ["Uea"]

BYTES = 200_000_000
UNPACKED = 1_000_000_000


class Uea(Format):
    """Example(float32 (steps, channels), class name). Training and test data are separate files."""

    @classmethod
    def sample(cls) -> Sample:
        text = b"@timeStamps false\n@classLabel true walk run\n@data\n1,2,3:4,5,6:walk\n0,1:2,3:run\n"
        walk, run = np.array([[1, 4], [2, 5], [3, 6]], np.float32), np.array([[0, 2], [1, 3]], np.float32)
        return Sample({"train.ts": text}, [Example(walk, "walk"), Example(run, "run")])

    def read(self, files: Sequence[Path], part: str) -> list[Example]:
        return [example for file in files for example in _read(file)]


def _read(file: Path) -> list[Example]:
    check_size(file, BYTES)
    lines = enumerate(text_lines(file, UNPACKED), 1)
    classes: list[str] = []
    for number, line in lines:
        key, *rest = line.split() or [""]
        key = key.lower()
        if key == "@data":
            break
        if rest and rest[0].lower() == "true" and key in ("@timestamps", "@missing"):
            raise UserError(f"{file}, line {number}: files with {key[1:]} cannot be read")
        if key == "@classlabel":
            classes = rest[1:]
        elif key and not key.startswith(("@", "#", "%")):
            raise UserError(f"{file}, line {number}: numbers before '@data'; is this a .ts file?")
    else:
        raise UserError(f"{file}: has no line '@data'; is this a .ts file?")
    if not classes:
        raise UserError(f"{file}: names no classes (@classLabel true ...)")
    examples: list[Example] = []
    for number, line in lines:
        if line.strip():
            examples.append(_example(line, classes, f"{file}, line {number}"))
            channels, first = examples[-1].input.shape[1], examples[0].input.shape[1]
            if channels != first:
                raise UserError(f"{file}, line {number}: {channels} channels, but the first example has {first}")
    return examples


def _example(line: str, classes: Sequence[str], where: str) -> Example:
    *channels, name = line.strip().split(":")
    if name not in classes:
        raise UserError(f"{where}: no class '{name[:50]}'{suggestion(name[:50], classes)}")
    columns = []
    for number, channel in enumerate(channels, 1):
        try:
            columns.append(np.array(channel.split(","), dtype=np.float32))
        except ValueError:
            raise UserError(f"{where}, channel {number}: holds something that is no number") from None
        if not np.isfinite(columns[-1]).all():
            raise UserError(f"{where}, channel {number}: a value is missing; fill it in")
        if len(columns[-1]) != len(columns[0]):
            raise UserError(f"{where}, channel {number}: {len(columns[-1])} steps, but channel 1 has {len(columns[0])}")
    if not columns:
        raise UserError(f"{where}: a class, but no values")
    return Example(np.stack(columns, axis=1), name)
