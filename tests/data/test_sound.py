"""Sound files as samples: rates, channels, limits, and files that are not sound."""

from __future__ import annotations

import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from regard.data.input import sound
from regard.data.input.sound import Sound, SoundInput, resampled
from regard.errors import UserError


def tone(pitch: float, rate: int, seconds: float = 0.5) -> np.ndarray:
    return np.sin(2 * np.pi * pitch * np.arange(int(rate * seconds)) / rate).astype(np.float32)


def saved(folder: Path, samples: np.ndarray, rate: int, name: str = "a.wav", **options: Any) -> str:
    soundfile.write(folder / name, samples, rate, **options)
    return str(folder / name)


# Rates


def test_the_rate_is_that_of_most_training_recordings() -> None:
    raws = [Sound(np.zeros(4, np.float32), rate) for rate in (16000, 8000, 8000, 44100)]
    made = SoundInput.fit(raws, seed=1)
    assert made.sizes() == {"rate": 8000}
    assert SoundInput.fit(raws, seed=1, rate=16000).sizes() == {"rate": 16000}
    assert SoundInput.fit(raws[:2], seed=1).rate == SoundInput.fit(raws[1::-1], seed=1).rate == 8000


def test_a_saved_input_comes_back_and_a_damaged_one_is_refused() -> None:
    made = SoundInput.from_files(SoundInput(11025).files())
    assert made.rate == 11025
    for wrong in (b"{}", b"[]", b"1", b"{", json.dumps({"rate": 1}).encode(), b'{"rate": "8000"}', b'{"rate": 8000.5}'):
        with pytest.raises(UserError, match="input.json"):
            SoundInput.from_files({"input.json": wrong})


@pytest.mark.parametrize(
    ("options", "said"),
    [({"rate": 100}, "input.rate: a rate of 100"), ({"rat": 8000}, "no key 'rat'; did you mean 'rate'")],
)
def test_odd_options_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        SoundInput.fit([Sound(np.zeros(4, np.float32), 8000)], seed=1, **options)


@pytest.mark.parametrize(("rate", "wanted"), [(44100, 8000), (8000, 44100), (16000, 8000), (8000, 11025), (8000, 7999)])
def test_a_tone_stays_the_same_tone_at_another_rate(rate: int, wanted: int) -> None:
    found, expected = resampled(tone(440, rate), rate, wanted), tone(440, wanted)
    assert abs(len(found) - len(expected)) <= 1 and found.dtype == np.float32
    middle = slice(wanted // 20, wanted // 20 * 9)  # at its ends a tone begins and stops, and is no pure tone
    np.testing.assert_allclose(found[middle], expected[middle], atol=2e-3)


def test_what_the_lower_rate_cannot_hold_is_gone() -> None:
    high = resampled(tone(6000, 44100), 44100, 8000)
    assert np.abs(high[400:-400]).max() < 0.01  # without a filter it would come back at 2000 Hz, as loud as before


def test_resampling_is_the_sum_that_its_formula_says() -> None:
    samples = np.random.default_rng(0).standard_normal(60)
    rate, wanted = 6000, 4000
    band = 0.95 * wanted / rate
    reach = int(np.ceil(16 / band))
    expected = []
    for n in range(40):
        place = n * rate / wanted
        taps = range(int(np.floor(place)) - reach + 1, int(np.floor(place)) + reach + 1)
        weights = [
            band * np.sinc(band * (t - place)) * np.cos(np.pi * (t - place) / 2 / (reach + 1)) ** 2 for t in taps
        ]
        total = sum(w * samples[t] for t, w in zip(taps, weights) if 0 <= t < 60)
        expected.append(total / sum(weights))
    np.testing.assert_allclose(resampled(samples, rate, wanted), expected, atol=1e-5)


@given(st.integers(4000, 192_000), st.integers(4000, 192_000), st.integers(1, 3000), st.floats(-1, 1, width=32))
def test_any_rate_becomes_any_other(rate: int, wanted: int, count: int, level: float) -> None:
    found = resampled(np.full(count, level, np.float32), rate, wanted)
    assert len(found) == -(-count * wanted // rate)
    assert np.isfinite(found).all() and np.abs(found).max() <= 1.3 * abs(level) + 1e-6
    inner = found[len(found) // 2 : len(found) // 2 + 1]
    if count * min(1, wanted / rate) > 100:
        np.testing.assert_allclose(inner, level, atol=1e-4)


# Files


@pytest.mark.parametrize("name", ["a.wav", "a.flac", "a.ogg"])
def test_a_file_is_read_as_it_was_written(tmp_path: Path, name: str) -> None:
    samples, notes = 0.5 * tone(300, 8000), list[str]()
    read = SoundInput(8000).read(saved(tmp_path, samples, 8000, name), notes.append)
    assert read.rate == 8000 and read.samples.dtype == np.float32 and not notes
    np.testing.assert_allclose(read.samples, samples, atol=0.05 if name == "a.ogg" else 1e-4)
    np.testing.assert_array_equal(SoundInput(8000).encode(read), read.samples)


def test_stereo_is_mixed_and_another_rate_resampled_and_both_are_said(tmp_path: Path) -> None:
    left, right = tone(300, 96000), tone(700, 96000)
    path = saved(tmp_path, np.stack([left, right], 1), 96000, subtype="FLOAT")
    notes: list[str] = []
    made = SoundInput(8000)
    read = made.read(path, notes.append)
    assert notes == [f"{path}: 2 channels, mixed into one", f"{path}: 96,000 Hz, resampled to the model's 8,000 Hz"]
    np.testing.assert_allclose(read.samples, (left + right) / 2, atol=1e-6)
    encoded = made.encode(read)
    assert len(encoded) == 4000
    expected = (tone(300, 8000) + tone(700, 8000)) / 2
    np.testing.assert_allclose(encoded[400:-400], expected[400:-400], atol=2e-3)


def refused(path: str) -> str:
    with pytest.raises(UserError) as error:
        SoundInput(8000).read(path)
    assert "\n" not in str(error.value) and Path(path).name in str(error.value)
    return str(error.value)


def test_what_is_no_sound_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "text.wav").write_text("these are words\n" * 100)
    (tmp_path / "nothing.wav").write_bytes(b"")
    (tmp_path / "head.wav").write_bytes(b"RIFF\x24\x00\x00\x00WAVEfmt ")
    for name in ("text.wav", "nothing.wav", "head.wav"):
        assert "not a sound file" in refused(str(tmp_path / name))
    assert "holds no samples" in refused(saved(tmp_path, np.zeros(0), 8000, "empty.wav"))
    assert "did you mean 'empty.wav'" in refused(str(tmp_path / "emty.wav"))
    assert "is a folder" in refused(str(tmp_path))


def test_a_sample_that_is_no_number_is_refused(tmp_path: Path) -> None:
    samples = tone(300, 8000)
    samples[70] = np.nan
    assert "sample 71 is not a number" in refused(saved(tmp_path, samples, 8000, subtype="FLOAT"))


def test_a_cut_off_file_gives_what_is_there_or_is_refused(tmp_path: Path) -> None:
    for name in ("a.wav", "a.flac", "a.ogg"):
        path = Path(saved(tmp_path, tone(300, 8000), 8000, name))
        content = path.read_bytes()
        for length in range(0, len(content), max(1, len(content) // 40)):
            path.write_bytes(content[:length])
            try:
                assert np.isfinite(SoundInput(8000).read(str(path)).samples).all()
            except UserError as error:
                assert "\n" not in str(error)


@pytest.mark.parametrize("rate", [2000, 300_000])
def test_a_rate_that_nobody_records_at_is_refused(tmp_path: Path, rate: int) -> None:
    assert f"a rate of {rate} samples" in refused(saved(tmp_path, np.zeros(100), rate))


def test_what_is_too_long_is_refused_before_it_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def decoded(*_: Any, **__: Any) -> None:
        raise AssertionError("decoded")

    monkeypatch.setattr(soundfile.SoundFile, "blocks", decoded)
    assert "61 seconds long; 60 are the most" in refused(saved(tmp_path, np.zeros(61 * 4000), 4000, "a.flac"))


def test_too_large_a_file_is_not_even_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sound, "BYTES", 1000)
    monkeypatch.setattr(sound, "read_sound", None)
    assert "has 0.1 MB" in refused(saved(tmp_path, np.zeros(50_000), 8000))


def test_a_file_nobody_may_open_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    path = saved(tmp_path, np.zeros(100), 8000)
    monkeypatch.setattr(os, "open", forbidden)
    assert "a.wav: cannot be read (Permission denied)" in refused(path)


def test_many_channels_take_no_more_memory_than_one(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(-(2**15), 2**15, (20_000, 512), dtype=np.int16)
    path = saved(tmp_path, noise, 8000)
    content = Path(path).read_bytes()
    sound.read_sound(content, path)
    tracemalloc.start()
    found = sound.read_sound(content, path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.allclose(found.samples, (noise / 2**15).mean(axis=1), atol=1e-6)
    assert peak < 10_000_000  # at once it would be 40 MB
