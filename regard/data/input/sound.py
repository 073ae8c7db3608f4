"""Sound: one channel of samples at one sampling rate. Spectrograms are the stem's job."""

from __future__ import annotations

import io
import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, NamedTuple

import numpy as np

from regard.data.bounded import check_size, read_bytes
from regard.data.compressed import SUFFIXES
from regard.data.input._accepted import CONTENT, FILES, as_array, is_array, read_named, refused
from regard.data.input._base import Input
from regard.errors import UserError
from regard.regular_files import open_regular

__all__ = ["SoundInput", "Sound", "read_sound", "resampled", "resampled_blocks"]

_FILE = "input.json"
BYTES = 50_000_000
SECONDS = 60
LONG_SECONDS, LONG_BYTES = 14_400, 6_000_000_000
"""The same for a model that reads long recordings in windows. Their files are read and resampled block by block, so
that an hour takes 0.3 GB of memory whatever its rate."""
RATES = (4_000, 192_000)
LOUDEST = 16.0
"""Limit for float samples: slightly above 1 is a loud recording, far above 1 was not scaled."""
CHANNELS = 32
"""An array with more in its last axis has its axes swapped."""
USUAL = (b"RIFF", b"RIFX", b"RF64", b"fLaC", b"OggS")
"""How WAV, FLAC and OGG files begin."""
_BLOCK = 1 << 16
_ZEROS = 16
"""Zero crossings of the resampling filter on either side."""
_CUTOFF = 0.95
"""Cutoff of the filter, as a fraction of the Nyquist frequency of the lower rate."""


class Sound(NamedTuple):
    """A recording: samples between -1 and 1 at `rate` samples per second."""

    samples: np.ndarray
    """float32 (N,)."""
    rate: int


class SoundInput(Input):
    """Recordings at one rate, of at most so many seconds; other rates are resampled."""

    kind: ClassVar[str] = "sound"
    varying: ClassVar[bool] = True
    takes: ClassVar[str] = "a recording: the path or the bytes of a file, or an array and its rate: (samples, rate)"

    def __init__(self, rate: int, seconds: int = SECONDS) -> None:
        self.rate, self.seconds = rate, seconds

    @classmethod
    def sample(cls) -> list[Sound]:
        samples = np.random.default_rng(0).uniform(-0.5, 0.5, 9000).astype(np.float32)
        return [Sound(samples[:1000], 8000), Sound(samples[1000:4000], 8000), Sound(samples[4000:], 16_000)]

    @classmethod
    def fit(cls, raws: Sequence[Sound], *, seed: int, rate: int = 0) -> SoundInput:
        """A `rate` of 0 means the training recordings' most frequent one, the lowest of a tie; `seed` has no effect."""
        if not raws:
            raise UserError("input: no recordings to learn the rate from")
        counts = Counter(raw.rate for raw in raws)
        rate = rate or min(counts, key=lambda rate: (-counts[rate], rate))
        check_rate(rate, "input.rate")
        return cls(rate)

    @classmethod
    def from_files(cls, files: Mapping[str, bytes]) -> SoundInput:
        try:
            saved = json.loads(files[_FILE])
            rate, seconds = saved["rate"], saved.get("seconds", SECONDS)
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            raise UserError(f"{_FILE}: does not describe sounds; the model folder is damaged") from None
        check_rate(rate, _FILE)
        if type(seconds) is not int or not 1 <= seconds <= LONG_SECONDS:
            raise UserError(f"{_FILE}: recordings of {str(seconds)[:20]} seconds; it must be 1 to {LONG_SECONDS:,}")
        return cls(rate, seconds)

    def files(self) -> dict[str, bytes]:
        long = {"seconds": self.seconds} if self.seconds != SECONDS else {}
        return {_FILE: json.dumps({"kind": self.kind, "rate": self.rate, **long}).encode()}

    def sizes(self) -> dict[str, int]:
        return {"rate": self.rate}

    def read(self, argument: str, note: Callable[[str], None] = lambda text: None) -> Sound:
        """A sound file (WAV, FLAC, OGG, ...) at its own rate; `note` is told about mixed channels and changed rates."""
        file = Path(argument)
        if self.seconds <= SECONDS or file.suffix in SUFFIXES:
            return self._read(read_bytes(file, BYTES, BYTES), str(file), note)
        check_size(file, LONG_BYTES)
        with open_regular(file) as opened:
            return self._read(opened, str(file), note)

    def decode(self, content: bytes, name: str, note: Callable[[str], None] = lambda text: None) -> Sound:
        """The recording in the bytes of an uploaded file, which must be WAV, FLAC or OGG."""
        if not content.startswith(USUAL):
            raise UserError(f"{name}: is no recording that can be read; give WAV, FLAC or OGG")
        return self._read(content, name, note)

    def _read(self, content: bytes | BinaryIO, name: str, note: Callable[[str], None]) -> Sound:
        """A short recording keeps its rate, a long one has the model's at once."""
        sound = read_sound(content, name, note, self.seconds, self.rate if self.seconds > SECONDS else 0)
        if sound.rate != self.rate:
            note(resampling(name, sound.rate, self.rate))
        return sound

    def is_one(self, given: Any) -> bool:
        return isinstance(given, (*FILES, *CONTENT)) or is_array(given) or _is_sampled(given)

    def accept(self, given: Any) -> Sound:
        if isinstance(given, CONTENT):
            sound = self.decode(bytes(given), "the recording")
        elif isinstance(given, FILES):
            sound = read_named(self.read, given, self.takes)
        elif isinstance(given, Sound):
            sound = given
        elif _is_sampled(given):
            sound = _sampled(as_array(given[0]), int(given[1]), self.seconds)
        else:
            raise refused(given, self.takes)
        return Sound(resampled(sound.samples, sound.rate, self.rate), self.rate)

    def encode(self, raw: Sound) -> np.ndarray:
        return resampled(raw.samples, raw.rate, self.rate)


def _is_sampled(given: Any) -> bool:
    """Whether this is (samples, rate), as a `Sound` also is."""
    return (
        isinstance(given, tuple) and len(given) == 2 and is_array(given[0]) and isinstance(given[1], (int, np.integer))
    )


def _sampled(samples: np.ndarray, rate: int, seconds: int) -> Sound:
    """A `Sound` from a caller's array: channels are mixed, integers scaled to between -1 and 1."""
    if samples.ndim not in (1, 2) or samples.ndim == 2 and samples.shape[1] > CHANNELS:
        raise UserError(f"samples must be of shape (samples,) or (samples, channels), not {samples.shape}")
    if samples.dtype.kind not in "fiu":
        raise UserError(f"samples must be numbers, not {samples.dtype}")
    check_rate(rate, "the recording")
    _check_length(len(samples), rate, "the recording", seconds)
    if not samples.size:
        raise UserError("the recording holds no samples")
    heard = samples.astype(np.float32)
    if samples.dtype.kind in "iu":
        half = 2.0 ** (8 * samples.dtype.itemsize - 1)
        heard = (heard - half if samples.dtype.kind == "u" else heard) / np.float32(half)
    heard = heard if heard.ndim == 1 else heard.mean(axis=1)
    if not np.isfinite(heard).all():
        place = int(np.flatnonzero(~np.isfinite(heard))[0])
        raise UserError(f"the recording: sample {place + 1:,} is not a number")
    if (loudest := float(np.abs(heard).max())) > LOUDEST:
        raise UserError(f"samples must lie between -1 and 1, but one is {loudest:g}; divide by 32768 what was 16 bits")
    return Sound(heard, rate)


def read_sound(
    content: bytes | BinaryIO,
    name: str,
    note: Callable[[str], None] = lambda text: None,
    seconds: int = SECONDS,
    new_rate: int = 0,
) -> Sound:
    """The sound in a file or its bytes, mixed to one channel; a too long one is refused before it is decoded. With a
    `new_rate` it is resampled while it is read."""
    import soundfile

    try:
        with soundfile.SoundFile(io.BytesIO(content) if isinstance(content, bytes) else content) as file:
            rate, channels = file.samplerate, file.channels
            check_rate(rate, name)
            _check_length(file.frames, rate, name, seconds)
            # Mixed block by block, so that many channels take no more memory than one.
            size = max(1, _BLOCK // channels)
            blocks = (block.mean(axis=1) for block in file.blocks(size, dtype="float32", always_2d=True))
            if new_rate and new_rate != rate:
                note(resampling(name, rate, new_rate))
                samples = _joined(resampled_blocks(blocks, rate, new_rate), -(-file.frames * new_rate // rate))
                rate = new_rate
            else:
                samples = _joined(blocks, file.frames)
    except (soundfile.SoundFileError, RuntimeError, TypeError, ValueError) as error:
        raise UserError(
            f"{name}: not a sound file that can be read ({_one_line(error)}); give WAV, FLAC or OGG"
        ) from None
    if not len(samples):
        raise UserError(f"{name}: holds no samples; record something")
    if not np.isfinite(samples).all():
        place = int(np.flatnonzero(~np.isfinite(samples))[0])
        raise UserError(f"{name}: sample {place + 1:,} is not a number; save the recording anew")
    if channels > 1:
        note(f"{name}: {channels} channels, mixed into one")
    return Sound(samples, rate)


def _joined(blocks: Iterable[np.ndarray], most: int) -> np.ndarray:
    """The blocks in one array, of `most` samples; a file may hold fewer than it states."""
    joined, length = np.empty(most, np.float32), 0
    for block in blocks:
        block = block[: most - length]
        joined[length : length + len(block)] = block
        length += len(block)
    return joined[:length]


def resampling(name: str, rate: int, new_rate: int) -> str:
    return f"{name}: {rate:,} Hz, resampled to the model's {new_rate:,} Hz"


def check_rate(rate: Any, where: str) -> None:
    lowest, highest = RATES
    if not isinstance(rate, int) or not lowest <= rate <= highest:
        raise UserError(f"{where}: a rate of {rate} samples a second; it must be {lowest:,} to {highest:,}")


def resampled(samples: np.ndarray, rate: int, new_rate: int) -> np.ndarray:
    """Resamples to `new_rate` samples per second by windowed sinc interpolation (Hann window).

    The filter removes frequencies above the Nyquist frequency of the lower rate, which would alias. Its weights depend
    on the position of an output between two inputs, which repeats every new_rate / gcd outputs.
    """
    if rate == new_rate:
        return samples.astype(np.float32, copy=False)
    common = math.gcd(rate, new_rate)
    up, down = new_rate // common, rate // common
    count = -(-len(samples) * up // down)
    band = _CUTOFF * min(1.0, new_rate / rate)
    reach = math.ceil(_ZEROS / band)
    taps = np.arange(-reach + 1, reach + 1)
    distances = taps - (np.arange(min(up, count)) * down % up)[:, None] / up
    window = np.cos(np.pi * distances / (reach + 1) / 2) ** 2
    weights = (band * np.sinc(band * distances) * window).astype(np.float32)
    weights /= weights.sum(axis=1, keepdims=True)  # a constant stays constant
    padded = np.pad(samples.astype(np.float32, copy=False), (reach, reach + 1))
    output = np.empty(count, dtype=np.float32)
    step = max(1, (1 << 20) // len(taps))
    for start in range(0, count, step):
        numbers = np.arange(start, min(start + step, count))
        heard = padded[(numbers * down // up)[:, None] + 1 + np.arange(len(taps))]
        output[start : start + step] = np.einsum("nt,nt->n", heard, weights[numbers % up])
    return output


def resampled_blocks(blocks: Iterable[np.ndarray], rate: int, new_rate: int) -> Iterator[np.ndarray]:
    """The same for a recording in blocks: each stretch is resampled with its neighbours on both sides."""
    common = math.gcd(rate, new_rate)
    up, down = new_rate // common, rate // common
    reach = math.ceil(_ZEROS / (_CUTOFF * min(1.0, new_rate / rate)))
    # Whole numbers of `down` samples, so that the filter's weights repeat from stretch to stretch.
    margin, step = (-(-length // down) * down for length in (reach + 2, _BLOCK))
    held, read, given = np.zeros(margin, np.float32), 0, 0
    for block in itertools.chain(blocks, [None]):
        read += 0 if block is None else len(block)
        held = np.concatenate([held, np.zeros(margin + step, np.float32) if block is None else block])
        while len(held) >= 2 * margin + step:
            stretch = resampled(held[: 2 * margin + step], rate, new_rate)[margin // down * up :][: step // down * up]
            held = held[step:]
            yield stretch if block is not None else stretch[: -(-read * up // down) - given]
            given += len(stretch)


def _check_length(samples: int, rate: int, name: str, most: int) -> None:
    if samples > most * rate:
        raise UserError(f"{name}: is {samples / rate:,.0f} seconds long; {most:,} are the most, so cut it")


def _one_line(error: Exception) -> str:
    """The library's message, without the representation of the file object."""
    import soundfile

    text = error.error_string if isinstance(error, soundfile.LibsndfileError) else str(error)
    return " ".join(text.split()).rstrip(".")
