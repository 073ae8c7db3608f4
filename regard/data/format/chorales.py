"""Chorales as JSON: `{"train": [piece, ...], "valid": ..., "test": ...}`, a piece being a list of steps of pitches.

The JSB Chorales are published this way (.json or .json.gz). Published likelihoods use the file in steps of a quarter
note with all pieces transposed to C. Each piece becomes one line of text, see data/music.py.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.data.bounded import read_text
from regard.data.format._base import Example, Format, Sample
from regard.data.music import PITCHES, write_steps
from regard.errors import UserError

__all__ = ["Chorales"]

BYTES = 50_000_000
UNPACKED = 200_000_000
FARTHEST = 12

Piece = list[list[int]]


class Chorales(Format):
    """One document per piece. Training pieces are repeated in every key up to `transpose` semitones down and up."""

    def __init__(self, transpose: int = 0) -> None:
        if not 0 <= transpose <= FARTHEST:
            raise UserError(f"data.format.transpose: wants 0 to {FARTHEST} semitones, not {transpose}")
        self.transpose = transpose

    @classmethod
    def sample(cls) -> Sample:
        return Sample({"chorales.json": b'{"train": [[[60, 64, 67], [62]]]}'}, [Example("", "60 64 67 | 62 |")])

    def read(self, files: Sequence[Path], part: str) -> list[Example]:
        farthest = self.transpose if part == "train" else 0
        pieces = [piece for file in files for piece in _pieces(file, part)]
        return [
            Example("", write_steps([pitch + shift for pitch in step] for step in piece))
            for shift in range(-farthest, farthest + 1)
            for piece in pieces
            if all(0 <= pitch + shift < PITCHES for step in piece for pitch in step)
        ]


def _pieces(file: Path, part: str) -> list[Piece]:
    try:
        found = json.loads(read_text(file, BYTES, UNPACKED))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{file}: is not JSON ({error}); check the file") from None
    if not isinstance(found, dict) or not isinstance(found.get(part), list):
        raise UserError(f'{file}: has no list of pieces called "{part}"; check the file')
    return [_piece(piece, f'{file}, "{part}", piece {number}') for number, piece in enumerate(found[part], 1)]


def _piece(given: Any, where: str) -> Piece:
    """Drops -1, which stands for silence in files with one column per voice."""
    if not isinstance(given, list) or not given or not all(isinstance(step, list) for step in given):
        raise UserError(f"{where}: is no list of steps, each a list of pitches")
    for step in given:
        for pitch in step:
            if type(pitch) is not int or not -1 <= pitch < PITCHES:
                raise UserError(f"{where}: {str(pitch)[:40]} is no pitch; those are whole numbers from 0 to 127")
    return [[pitch for pitch in step if pitch >= 0] for step in given]
