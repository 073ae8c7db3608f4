"""Whatever type an input is given as, the answer is the same, and other types are refused in one line.

That one input gives one result and many a list is a law of every task: tests/contracts/test_task.py.
"""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from PIL import Image

from regard.data.input.sound import Sound
from regard.errors import UserError
from tests.contracts.tasks import Tasks
from tests.task.seers import captioner, classifier, picture, png, transcriber

FORMS = {
    "translate": "fr-en",
    "classify": "sentiment-lstm",
    "tag": "entities-bilstm",
    "fill": "bert-english",
    "generate": "char-rnn-shakespeare",
    "forecast": "forecast-ett-linear",
}
TEXT = ("translate", "classify", "tag", "fill", "generate")
"""Models that read text."""


class Made(Tasks):
    """A task and an input for it."""

    def __call__(self, name: str) -> tuple[Any, Any]:
        task, _, valid = super().__call__(name, FORMS.get(name, ""))
        return task, task.inputs(valid)[0]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("made"))


@pytest.mark.parametrize("name", TEXT)
def test_a_table_of_texts_is_not_its_column_names(name: str, made: Made):
    task, _ = made(name)
    with pytest.raises(UserError, match="this model takes a text"):
        getattr(task, name)(Frame({"text": ["a _ film"]}))
    for wrong in (b"a _ film", Path("a _ film")):
        with pytest.raises(UserError, match="this model takes a text"):
            getattr(task, name)([wrong])


def test_a_text_may_be_the_list_of_its_words_among_several(made: Made):
    task, text = made("tag")
    (found,) = task.tag([text.split()])
    assert found.words == text.split() and found.text == text
    assert [one.text for one in task.tag(["Ada", "Harry"])] == ["Ada", "Harry"]


def test_generation_gives_as_many_as_are_asked_for(made: Made):
    task, prompt = made("generate")
    drawn = task.generate(prompt, count=2, seed=5, length=4)
    assert [one.seed for one in drawn] == [5, 6] and drawn[0] == task.generate(prompt, seed=5, length=4)
    assert task.generate([prompt, prompt], count=2, seed=5, length=4) == [drawn, drawn]


# ------------------------------------------------------------------------------------------------- pictures and recordings


def test_a_picture_may_be_a_path_bytes_an_image_or_an_array(tmp_path: Path):
    task, pixels = classifier(), picture()
    wanted = task.classify(pixels)
    file = tmp_path / "picture.png"
    file.write_bytes(png(pixels))
    image = Image.fromarray(pixels[..., 0])
    forms = [
        str(file),
        file,
        file.read_bytes(),
        bytearray(file.read_bytes()),
        image,
        pixels[..., 0],
        torch.tensor(pixels),
    ]
    for form in forms:
        assert task.classify(form) == wanted
    for one in task.classify(forms):
        assert one.probabilities == pytest.approx(wanted.probabilities, abs=1e-6)
    with Image.open(file) as opened:
        assert task.classify(opened) == wanted
        assert task.inspect(opened).label == wanted.label


def test_a_transparent_picture_stands_on_white_however_it_is_given():
    task = captioner()
    pixels = np.dstack([picture(16, 16, 3), np.full((16, 16), 100, np.uint8)])
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    wanted = task.caption(file.getvalue())
    assert task.caption(pixels) == wanted == task.caption(Image.fromarray(pixels))
    assert task.caption(np.ascontiguousarray(pixels[..., :3])) != wanted


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (picture().astype(np.float32) / 255, "uint8"),
        (np.stack([picture()] * 2), r"uint8 \(height, width, 1 or 3\), not uint8 \(2, 12, 12, 1\)"),
        (picture().transpose(2, 0, 1), "not uint8"),
        ("no-such-file.png", "no file 'no-such-file.png'; this model takes a picture"),
        ("x" * 5000, "no file"),
        (Path("."), "folder|file"),
        (b"no picture", "is no picture"),
        (open, "takes a picture"),
    ],
)
def test_what_is_no_picture(wrong: Any, message: str):
    with pytest.raises(UserError, match=message):
        classifier().classify(wrong)


def test_large_pictures_are_not_kept_as_large_as_they_came():
    task = classifier()
    kept = task.pair.input.accept(picture(1200, 1600))
    assert kept.nbytes == 12 * 12
    assert task.classify(picture(1200, 1600)) == task.classify(kept)


def test_a_recording_may_be_a_path_bytes_or_samples_with_their_rate(tmp_path: Path):
    task = transcriber()
    samples = (0.3 * np.sin(np.arange(8000) / 9)).astype(np.float32)
    wanted = task.transcribe(Sound(samples, 8000))
    file = tmp_path / "sound.wav"
    soundfile.write(file, samples, 8000, subtype="FLOAT")
    sixteen = (samples * 32768).astype(np.int16)
    stereo = np.stack([samples, samples], 1)
    for form in (
        file,
        str(file),
        file.read_bytes(),
        (samples, 8000),
        (samples.astype(np.float64), np.int64(8000)),
        (stereo, 8000),
    ):
        assert task.transcribe(form) == wanted
    assert task.transcribe((sixteen, 8000)).ids == wanted.ids
    eight = ((samples + 1) * 128).astype(np.uint8)
    accept = task.pair.input.accept
    assert accept((eight, 8000)).samples == pytest.approx(samples, abs=0.01)
    assert accept((np.repeat(samples, 2), 16000)).samples.shape == (8000,)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.zeros(8000, np.float32), r"an array and its rate: \(samples, rate\)"),
        ((np.zeros((2, 8000)), 8000), r"shape \(samples,\) or \(samples, channels\)"),
        ((np.zeros(8000) + np.nan, 8000), "sample 1 is not a number"),
        ((np.full(8000, 20000.0), 8000), "between -1 and 1"),
        ((np.zeros(0), 8000), "no samples"),
        ((np.zeros(80), 3), "a rate of 3"),
        ((np.zeros(61 * 8000), 8000), "61 seconds"),
        ((np.array(["a"]), 8000), "must be numbers"),
        (b"RIFFnothing", "not a sound file"),
    ],
)
def test_what_is_no_recording(wrong: Any, message: str):
    with pytest.raises(UserError, match=message):
        transcriber().transcribe(wrong)


def test_a_clip_may_be_a_path_or_bytes(made: Made, tmp_path: Path):
    task, frames = made("track")
    first, *more = [Image.fromarray(frame[..., 0]) for frame in frames]
    file = tmp_path / "clip.gif"
    first.save(file, save_all=True, append_images=more, duration=40)
    found = task.track([file, str(file), file.read_bytes()])
    assert found[0] == found[1] == found[2] and len(found[0].places) == len(frames)
    with pytest.raises(UserError, match="takes a clip"):
        task.track(frames[0])


# ------------------------------------------------------------------------------------------------------------- series


class Frame:
    """As much of a DataFrame as pandas and polars have in common."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self._columns = {name: np.asarray(values) for name, values in columns.items()}

    @property
    def columns(self) -> list[str]:
        return list(self._columns)

    def __getitem__(self, name: str) -> np.ndarray:
        return self._columns[name]

    def __iter__(self) -> Any:
        return iter(self._columns)


def test_columns_are_taken_by_name_from_tables_and_files(made: Made, tmp_path: Path):
    task, series = made("forecast")
    first, second = task.columns
    wanted = task.forecast(series).values
    frame = Frame({second: series[:, 1], "day": ["monday"] * len(series), first: series[:, 0]})
    assert np.allclose(task.forecast(frame).values, wanted, atol=1e-5)
    file = tmp_path / "series.csv"
    lines = [f"{second},{first}", *(f"{row[1]!r},{row[0]!r}" for row in series.tolist())]
    file.write_text("\n".join(lines))
    assert np.allclose(task.forecast(file).values, wanted, atol=1e-5)
    assert np.allclose(task.forecast(series.tolist()).values, wanted, atol=1e-5)
    many = task.forecast([frame, file, series])
    assert all(np.allclose(one.values, wanted, atol=1e-5) for one in many)
    with pytest.raises(UserError, match=f"no column '{first}'"):
        task.forecast(Frame({second: series[:, 1]}))
    with pytest.raises(UserError, match=f"column '{first}': holds something that is no number"):
        task.forecast(Frame({second: series[:, 1], first: ["a"] * len(series)}))
    for wrong in (series[:, :1], series[None], series.T[:, :, None]):
        with pytest.raises(UserError, match="the model reads steps of 2 numbers"):
            task.forecast(wrong)


def test_a_table_without_known_names_gives_its_columns_of_numbers():
    from regard.data.input.series import Series

    plain = Series([0.0, 0.0], [1.0, 1.0])
    frame = Frame({"day": ["monday", "tuesday"], "a": [1, 2], "b": [3.5, 4.5]})
    assert plain.accept(frame).tolist() == [[1, 3.5], [2, 4.5]]
    with pytest.raises(UserError, match="1 columns of numbers, but the model reads 2"):
        plain.accept(Frame({"a": [1, 2]}))
    single = Series([0.0], [1.0])
    assert single.is_one([1, 2, 3]) and single.accept([1, 2, 3]).tolist() == [[1], [2], [3]]
    assert single.accept(np.array([1.0, 2.0])).shape == (2, 1)
    for wrong in (np.array(["1", "2"]), np.array([None, 1.0]), [[1.0], [2.0, 3.0]]):
        with pytest.raises(UserError):
            single.accept(wrong)


# ------------------------------------------------------------------------------------------------- names and completion


@pytest.mark.parametrize(("task", "name"), [(captioner(), "caption"), (transcriber(), "transcribe")])
def test_the_former_name_still_works_and_says_the_new_one(task: Any, name: str):
    given = picture(16, 16, 3) if name == "caption" else Sound(np.zeros(8000, np.float32), 8000)
    with pytest.warns(DeprecationWarning, match=rf"write\(\) is now called {name}\(\)"):
        found = task.write([given])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert found == getattr(task, name)([given])
