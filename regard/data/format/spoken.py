"""Spoken digits: recordings named DIGIT_SPEAKER_INDEX.wav as in the Free Spoken Digit Dataset, in a folder or tar file.

Indices 0 to 4 are the data set's own test part; here 5 to 9 are for validation and the rest for training.
"""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regard.data.bounded import check_size, megabytes, read_bytes
from regard.data.compressed import DAMAGED, most_in_memory, open_expanded
from regard.data.format._base import Example, Format, Sample
from regard.data.format._made import check_made, random_for
from regard.data.format._sample_files import tarred, wav
from regard.data.input.sound import Sound, read_sound
from regard.errors import UserError, suggestion

__all__ = ["Spoken"]

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
PACKED = 1_000_000_000
RECORDING = 5_000_000
ALL_RECORDINGS = 2_000_000_000
ENTRIES = 200_000
_NAME = re.compile(r"([0-9])_([^_/]+)_([0-9]{1,6})\.wav")
_MAGIC = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ\0": ".xz", b"\x28\xb5\x2f\xfd": ".zst"}
_PAUSE = (0.02, 0.25)
"""Shortest and longest pause around joined recordings, in seconds."""


class Recording(NamedTuple):
    sound: Sound
    digit: int
    speaker: str
    take: int


class Spoken(Format):
    """Example(Sound, "seven"). With `join` above 1, `count` strings of one to `join` digits: "seven zero two".

    With `unseen`, the test part is all recordings of that speaker and no others. A string joins recordings of one
    speaker and one part, with pauses of random length between them.
    """

    def __init__(self, unseen: str = "", join: int = 1, count: int = 5000, seed: int = 1) -> None:
        check_made(count, seed)
        if not 1 <= join <= 20:
            raise UserError(f"data.format.join: wants 1 to 20 digits, not {join}")
        self.unseen, self.join, self.count, self.seed = unseen, join, count, seed

    @classmethod
    def sample(cls) -> Sample:
        samples = np.array([0.0, 0.25, -0.25, 0.5], np.float32)
        archive = tarred({"recordings/7_anna_10.wav": wav(samples, 8000)})
        return Sample({"recordings.tar": archive}, [Example(Sound(samples, 8000), "seven")])

    def read(self, files: Sequence[Path], part: str) -> list[Example]:
        names = [str(file) for file in files]
        recordings = sorted(
            (recording for file in files for recording in _recordings(file)),
            key=lambda r: (r.digit, r.speaker, r.take),
        )
        if not recordings:
            raise UserError(f"{', '.join(names)}: no recordings called DIGIT_SPEAKER_INDEX.wav")
        speakers = {recording.speaker for recording in recordings}
        if self.unseen and self.unseen not in speakers:
            raise UserError(f"data.format.unseen: no speaker '{self.unseen}'{suggestion(self.unseen, speakers)}")
        chosen = [recording for recording in recordings if self._part(recording) == part]
        if not chosen:
            raise UserError(f"{', '.join(names)}: no recordings for the part '{part}' (index 0-4 test, 5-9 valid)")
        if self.join == 1:
            return [Example(recording.sound, DIGITS[recording.digit]) for recording in chosen]
        return self._joined(chosen, random_for(self.seed, part))

    def _part(self, recording: Recording) -> str:
        if self.unseen and recording.speaker == self.unseen:
            return "test"
        if recording.take < 5:
            return "" if self.unseen else "test"
        return "valid" if recording.take < 10 else "train"

    def _joined(self, recordings: Sequence[Recording], random: np.random.Generator) -> list[Example]:
        rates = sorted({recording.sound.rate for recording in recordings})
        if len(rates) > 1:
            raise UserError(f"data.format.join: recordings at {rates[0]:,} and {rates[1]:,} Hz cannot be joined")
        by_speaker: dict[str, list[Recording]] = {}
        for recording in recordings:
            by_speaker.setdefault(recording.speaker, []).append(recording)
        speakers = sorted(by_speaker)
        examples = []
        for _ in range(self.count):
            own = by_speaker[speakers[random.integers(len(speakers))]]
            chosen = [own[i] for i in random.integers(len(own), size=random.integers(1, self.join, endpoint=True))]
            pieces = [_pause(random, rates[0])]
            for recording in chosen:
                pieces += [recording.sound.samples, _pause(random, rates[0])]
            words = " ".join(DIGITS[recording.digit] for recording in chosen)
            examples.append(Example(Sound(np.concatenate(pieces), rates[0]), words))
        return examples


def _pause(random: np.random.Generator, rate: int) -> np.ndarray:
    """A pause with faint noise, since a microphone is never silent."""
    return (1e-3 * random.standard_normal(int(rate * random.uniform(*_PAUSE)))).astype(np.float32)


def _recordings(file: Path) -> Iterator[Recording]:
    for name, content in _folder(file) if file.is_dir() else _tar(file):
        found = _NAME.fullmatch(name)
        assert found is not None
        sound = read_sound(content, f"{file}, {name}")
        yield Recording(sound, int(found[1]), found[2], int(found[3]))


def _folder(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.iterdir()):
        if _NAME.fullmatch(path.name) and path.is_file():
            yield path.name, read_bytes(path, RECORDING, RECORDING)


class _Bounded(io.RawIOBase):
    """The bytes of a plain or compressed archive up to a limit, because tarfile reads headers of any length."""

    def __init__(self, file: Path) -> None:
        self._path, self._read = file, 0
        with file.open("rb") as stream:
            begin = stream.read(6)
        suffix = next((suffix for magic, suffix in _MAGIC.items() if begin.startswith(magic)), "")
        self._limit = most_in_memory(file, ALL_RECORDINGS + 512 * 4 * ENTRIES, suffix)
        self._stream = open_expanded(file, suffix)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._stream.readinto(buffer)
        self._read += count
        if self._read > self._limit:
            raise UserError(f"{self._path}: unpacks to more than {megabytes(self._limit)}; use fewer recordings")
        return count

    def close(self) -> None:
        self._stream.close()
        super().close()


def _tar(file: Path) -> Iterator[tuple[str, bytes]]:
    """Streams the recordings of an archive through memory. Nothing is extracted, so member names are harmless."""
    check_size(file, PACKED)
    total = 0
    try:
        with _Bounded(file) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            for number, member in enumerate(archive):
                total += member.size
                if number >= ENTRIES or total > ALL_RECORDINGS:
                    most = f"{ENTRIES:,} files or {megabytes(ALL_RECORDINGS)}"
                    raise UserError(f"{file}: holds more than {most}; use fewer")
                name = member.name.rpartition("/")[2]
                if not member.isfile() or not _NAME.fullmatch(name):
                    continue
                if member.size > RECORDING:
                    raise UserError(
                        f"{file}, {name}: has {megabytes(member.size)}; {megabytes(RECORDING)} are the most"
                    )
                content = archive.extractfile(member)
                assert content is not None
                yield name, content.read()
    except (tarfile.TarError, *DAMAGED) as error:
        raise UserError(f"{file}: is no tar archive that can be read ({error}); give the archive or a folder") from None
