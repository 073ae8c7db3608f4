"""Recordings and what is said in them: a zip or folder of WAV, FLAC or OGG files, and a table `file name<TAB>text`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.data.corpus.reading import read_pairs
from regard.data.format._base import Example, Format
from regard.data.format._labelled_files import archive_and_table, open_labelled
from regard.data.input.sound import read_sound
from regard.errors import UserError

__all__ = ["Transcripts"]

RECORDING = 50_000_000
ALL_SAMPLES = 1_000_000_000
"""At 4 bytes each."""


class Transcripts(Format):
    """Example(Sound, text): one for each line of the table."""

    def read(self, files: Sequence[Path], part: str) -> list[Example]:
        archive, table = archive_and_table(files, ".tsv", "transcripts")
        examples: list[Example] = []
        samples = 0
        with open_labelled(archive, table) as labelled:
            for name, text in read_pairs([table], [], kept=True):
                if not text.strip():
                    continue
                path = labelled.path(name)
                sound = read_sound(labelled.archive.read(path, RECORDING), labelled.archive.where(path))
                samples += len(sound.samples)
                if samples > ALL_SAMPLES:
                    raise UserError(f"{archive}: the recordings do not fit in memory; use fewer")
                examples.append(Example(sound, text.strip()))
        return examples
