"""Recordings and what is said in them: a zip or folder of WAV, FLAC or OGG files, and a table `file name<TAB>text`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from regard.data.corpus.reading import read_pairs
from regard.data.format._base import Example, Format, Sample
from regard.data.format._labelled_files import archive_and_table, open_labelled
from regard.data.format._sample_files import wav, zipped
from regard.data.input.sound import Sound, read_sound
from regard.errors import UserError

__all__ = ["Transcripts"]

RECORDING = 50_000_000
ALL_SAMPLES = 1_000_000_000
"""At 4 bytes each."""


class Transcripts(Format):
    """Example(Sound, text): one for each line of the table."""

    @classmethod
    def sample(cls) -> Sample:
        samples = np.array([0, 0.5, -0.25, 0.125], np.float32)
        files = {"train.zip": zipped({"one.wav": wav(samples, 8000)}), "train.tsv": b"one.wav\tgood morning\n"}
        return Sample(files, [Example(Sound(samples, 8000), "good morning")])

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
