"""Clips and the position of an object in every frame: a zip or folder of animated GIFs, and a CSV table.

    clip,frame,x,y
    one.gif,1,0.250,0.500
    one.gif,2,0.262,0.497

Frames count from 1; x and y go from 0 (left, top) to 1 (right, bottom), as `regard track` prints them. Of a clip that
is not square, models see the square in the middle, and x and y refer to that.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from regard.data.bounded import check_size
from regard.data.corpus.reading import text_lines
from regard.data.format._base import Example, Format, Sample
from regard.data.format._clips import Clips
from regard.data.format._labelled_files import archive_and_table, open_labelled
from regard.data.format._sample_files import FRAMES, gif, zipped
from regard.data.input.clip import decode_gif
from regard.errors import UserError

__all__ = ["Tracks"]

COLUMNS = ("clip", "frame", "x", "y")
BYTES = 100_000_000
UNPACKED = 500_000_000

Positions = dict[int, tuple[float, float]]
"""(x, y) by the number of the frame."""


class Tracks(Format):
    """Example(uint8 (frames, height, width, channels), float32 (frames, 2)): one for each clip of the table."""

    def __init__(self, shrink: int = 256) -> None:
        """Scales larger frames to a short side of `shrink` pixels; 0: never."""
        self.shrink = shrink

    @classmethod
    def sample(cls) -> Sample:
        clip = gif(FRAMES)
        return Sample(
            {
                "train.zip": zipped({"one.gif": clip}),
                "train.csv": b"clip,frame,x,y\none.gif,1,0.25,0.5\none.gif,2,1,0\n",
            },
            [Example(decode_gif(clip, "one.gif")[0], np.array([[0.25, 0.5], [1, 0]], np.float32))],
        )

    def read(self, files: Sequence[Path], part: str) -> list[Example]:
        archive, table = archive_and_table(files, ".csv", "tracks")
        positions, clips = _positions(table), Clips(self.shrink)
        with open_labelled(archive, table) as labelled:
            read = {name: clips.read(labelled.archive, labelled.path(name)) for name in positions}
        return [Example(frames, _track(positions[name], len(frames), name, table)) for name, frames in read.items()]


def _track(found: Positions, frames: int, name: str, table: Path) -> np.ndarray:
    for number in (*range(1, frames + 1), *found):
        if number not in found:
            raise UserError(f"{table}: {name!r} has {frames} frames, but frame {number} has no position; add it")
        if number > frames:
            raise UserError(f"{table}: {name!r} has {frames} frames, so there is no frame {number}; take it out")
    return np.array([found[number] for number in range(1, frames + 1)], np.float32)


def _positions(table: Path) -> dict[str, Positions]:
    check_size(table, BYTES)
    rows = csv.reader(f"{line}\n" for line in text_lines(table, UNPACKED))
    found: dict[str, Positions] = {}
    try:
        names = [name.strip().lower() for name in next(rows, [])]
        for column in COLUMNS:
            if column not in names:
                raise UserError(f"{table}, line 1: names no column '{column}'; write: {','.join(COLUMNS)}")
        at = [names.index(column) for column in COLUMNS]
        for row in rows:
            if row:
                where = f"{table}, line {rows.line_num}"
                if len(row) != len(names):
                    raise UserError(f"{where}: has {len(row)} cells, but the first line names {len(names)} columns")
                clip, *cells = (row[i].strip() for i in at)
                frame, position = _numbers(cells, where)
                if frame in found.setdefault(clip, {}):
                    raise UserError(f"{where}: frame {frame} of {clip!r} is there twice; take one out")
                found[clip][frame] = position
    except csv.Error as error:
        raise UserError(f"{table}, line {rows.line_num}: is not CSV ({error}); check the file") from None
    if not found:
        raise UserError(f"{table}: holds no positions; write a line per frame: {','.join(COLUMNS)}")
    return found


def _numbers(cells: Sequence[str], where: str) -> tuple[int, tuple[float, float]]:
    frame, *position = cells
    if not frame.isdecimal() or not 1 <= len(frame) <= 9 or int(frame) < 1:
        raise UserError(f"{where}: '{frame[:40]}' is not the number of a frame; they count from 1")
    numbers = []
    for cell in position:
        try:
            numbers.append(float(cell))
        except ValueError:
            numbers.append(float("nan"))
        if not 0 <= numbers[-1] <= 1:
            raise UserError(f"{where}: '{cell[:40]}' is not a position; x and y go from 0 (left, top) to 1")
    return int(frame), (numbers[0], numbers[1])
