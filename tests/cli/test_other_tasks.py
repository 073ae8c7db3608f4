"""`regard classify`, `caption`, `transcribe` and `track` as a user meets them: real small files of every kind, what comes
out as text and as JSON, and a mistake in one line."""

from __future__ import annotations

import json
import os
import pty
import struct
import subprocess
import zlib
from pathlib import Path

import numpy as np
import pytest
import soundfile
from PIL import Image

import regard as package
from regard.cli import inputs
from regard.config import read_recipe, tiny_form
from regard.data.splitting import read_parts

from .conftest import command, environment, imported
from .conftest import regard as regard_process

FORMS = {
    "picture": ("vit-fashion", 40),
    "series": ("activity-watch", 30),
    "text": ("sentiment-lstm", 20),
    "moves": ("activity-clips", 20),
    "caption": ("caption-attention", 60),
    "transcribe": ("speech-digits", 50),
    "track": ("track-clips", 30),
}
"""What the models of these tests are tiny forms of, and for how many steps they are trained."""


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Models by name, each trained on first use."""
    made: dict[str, str] = {}

    def get(name: str) -> str:
        if name not in made:
            recipe, steps = FORMS[name]
            short = [f"training.{key}={steps}" for key in ("steps", "validate_every", "save_every")]
            folder = tmp_path_factory.mktemp("models") / name
            options = ("training.device=cpu", "data.valid_limit=10", *short)
            made[name] = str(package.train(tiny_form(read_recipe(recipe)), *options, folder=folder, quiet=True).folder)
        return made[name]

    return get


def example(name: str, number: int = 0):
    return read_parts(tiny_form(read_recipe(FORMS[name][0])).data).test[number].input


def png(width: int, height: int) -> bytes:
    """The beginning of a PNG that says it is so large, and nothing of what would follow."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    data = b"IDAT" + zlib.compress(b"\0" * 100)
    return b"\x89PNG\r\n\x1a\n" + parts + struct.pack(">I", len(data) - 4) + data + struct.pack(">I", zlib.crc32(data))


@pytest.fixture(scope="session")
def files(tmp_path_factory) -> Path:
    """A folder of everything that people might show a model."""
    here = tmp_path_factory.mktemp("files")
    colour = example("caption")
    Image.fromarray(colour).save(here / "photo.png")
    Image.fromarray(colour.repeat(8, 0).repeat(8, 1)).save(here / "large.jpg")
    Image.fromarray(example("picture")[..., 0]).save(here / "grey.png")
    Image.fromarray(example("picture", 1)[..., 0]).save(here / "other.png")
    Image.new("RGB", (30, 20), "red").save(here / "oblong.png")
    whole = (here / "photo.png").read_bytes()
    (here / "cut.png").write_bytes(whole[: len(whole) // 2])
    (here / "byte.png").write_bytes(whole[:1])
    (here / "none.png").write_bytes(b"")
    (here / "text.png").write_text("a letter, not a picture\n" * 20)
    (here / "huge.png").write_bytes(png(50_000, 50_000))
    (here / "drawing.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"><circle r="3"/></svg>')
    (here / "folder").mkdir()

    sound = example("transcribe")
    soundfile.write(here / "speech.wav", sound.samples, sound.rate)
    soundfile.write(here / "speech.flac", sound.samples, sound.rate)
    soundfile.write(here / "stereo.wav", np.stack([sound.samples, sound.samples], 1), sound.rate)
    soundfile.write(here / "fast.wav", sound.samples.repeat(12), 96_000)
    soundfile.write(here / "empty.wav", np.zeros(0, np.float32), 8000)
    (here / "none.wav").write_bytes(b"")
    (here / "text.wav").write_text("not a sound\n" * 20)
    soundfile.write(here / "long.wav", np.zeros(61 * 8000, np.float32), 8000)

    series = example("series")
    rows = [",".join(f"{value:.5f}" for value in row) for row in series]
    (here / "motion.csv").write_text("\n".join(["x,y,z", *rows]) + "\n")
    (here / "timed.csv").write_text("\n".join(["time,x,y,z", *(f"{i},{row}" for i, row in enumerate(rows))]) + "\n")
    (here / "hole.csv").write_text("x,y,z\n1,2,3\n4,,6\n")
    (here / "words.csv").write_text("x,y,z\n1,2,3\n4,five,6\n")
    (here / "wide.csv").write_text("x,y,z,w\n1,2,3,4\n")
    (here / "narrow.csv").write_text("x,y\n1,2\n")
    (here / "ragged.csv").write_text("x,y,z\n1,2,3\n4,5\n")
    (here / "names.csv").write_text("x,y,z\n")
    (here / "none.csv").write_text("")
    (here / "binary.csv").write_bytes(bytes(range(128, 256)))

    for name, clip in (("clip.gif", example("track")), ("still.gif", example("track")[:1])):
        first, *more = [Image.fromarray(frame[..., 0]) for frame in clip]
        first.save(here / name, save_all=True, append_images=more, duration=40)
    (here / "cut.gif").write_bytes((here / "clip.gif").read_bytes()[:20])
    return here


@pytest.fixture
def run_here(monkeypatch, run_regard, files):
    """Runs the command line in the folder of files."""
    monkeypatch.chdir(files)
    return run_regard


# ------------------------------------------------------------------------------------------------------- what comes out


def test_pictures_get_labels_with_probabilities(run_here, models):
    out, err = run_here("classify", models("picture"), "grey.png", "other.png")
    lines = [line.split("\t") for line in out.splitlines()]
    assert len(lines) == 2 and err == ""
    for names in lines:
        labels, sure = names[::2], list(map(float, names[1::2]))
        assert len(set(labels)) == 3 and sure == sorted(sure, reverse=True) and 0 < sum(sure) <= 1.0002
    assert [
        len(run_here("classify", models("picture"), "--top", top, "grey.png")[0].split("\t")) for top in (1, 9)
    ] == [
        2,
        8,
    ]


def test_labels_as_json(run_here, models):
    out, _ = run_here("classify", models("picture"), "--format", "json", "grey.png", "other.png")
    first, second = map(json.loads, out.splitlines())
    assert first["label"] == max(first["probabilities"], key=first["probabilities"].get)
    assert sum(first["probabilities"].values()) == pytest.approx(1, abs=1e-5) and len(second["probabilities"]) == 4


def test_series_and_clips_get_labels_too(run_here, models):
    out, err = run_here("classify", models("series"), "motion.csv", "timed.csv")
    assert out.splitlines()[0] == out.splitlines()[1] and err == ""  # a column of times is none of the model's
    assert run_here("classify", models("moves"), "clip.gif")[0].count("\t") == 5


def test_a_picture_gets_a_sentence(run_here, models):
    out, err = run_here("caption", models("caption"), "photo.png", "large.jpg", "photo.png")
    first, _, third = out.splitlines()
    assert first == third and len(first.split()) > 2 and err == ""
    scored = run_here("caption", models("caption"), "--scores", "photo.png")[0].rstrip("\n").split("\t")
    assert scored[0] == first and float(scored[1]) < 0


def test_sentences_as_json_and_several_of_them(run_here, models):
    out, _ = run_here("caption", models("caption"), "--format", "json", "--n-best", 3, "photo.png")
    found = json.loads(out)
    assert len(found["alternatives"]) == 2 and found["finished"] is True
    assert " ".join(token["token"] for token in found["tokens"]) and all(
        0 < t["probability"] <= 1 for t in found["tokens"]
    )
    lines = run_here("caption", models("caption"), "--n-best", 2, "photo.png", "large.jpg")[0].splitlines()
    assert [line.split("\t")[0] for line in lines] == ["1", "1", "2", "2"] and lines[0].split("\t")[1] == found["text"]


def test_a_recording_gets_its_words(run_here, models):
    out, err = run_here("transcribe", models("transcribe"), "speech.wav", "speech.flac")
    first, second = out.splitlines()
    assert first == second and set(first.split()) <= {"low", "mid", "high"} and err == ""
    found = json.loads(run_here("transcribe", models("transcribe"), "--format", "json", "--beam", 1, "speech.wav")[0])
    assert set(found) == {"text", "log_probability", "finished", "tokens", "alternatives"}


def test_stereo_and_fast_sound_work_and_say_what_was_done(run_here, models):
    text = run_here("transcribe", models("transcribe"), "speech.wav")[0]
    out, err = run_here("transcribe", models("transcribe"), "stereo.wav")
    assert (out, err) == (text, "regard: stereo.wav: 2 channels, mixed into one\n")
    out, err = run_here("transcribe", models("transcribe"), "fast.wav")
    assert (out, err) == (text, "regard: fast.wav: 96,000 Hz, resampled to the model's 8,000 Hz\n")
    assert run_here("transcribe", models("transcribe"), "--quiet", "stereo.wav", "fast.wav") == (text * 2, "")


def test_a_clip_gets_a_line_a_frame(run_here, models):
    out, err = run_here("track", models("track"), "clip.gif")
    lines = [list(map(float, line.split("\t"))) for line in out.splitlines()]
    assert [line[0] for line in lines] == list(range(1, len(example("track")) + 1)) and err == ""
    assert all(len(line) == 4 and line[3] > 0 for line in lines)
    found = json.loads(run_here("track", models("track"), "--format", "json", "clip.gif")[0])
    assert np.array(found["places"]) == pytest.approx(np.array(lines)[:, 1:3], abs=1e-4)
    assert found["spreads"] == pytest.approx([line[3] for line in lines], abs=1e-4)


def test_a_gif_with_one_frame_is_a_short_clip(run_here, models):
    out, err = run_here("track", models("track"), "still.gif")
    assert out.count("\n") == 1 and err == "regard: still.gif: has a single frame\n"


def test_what_is_cut_off_is_said(run_here, models):
    _, err = run_here("caption", models("caption"), "oblong.png")
    assert err == "regard: oblong.png: is 30 x 20 pixels; only the square in the middle is used\n"
    _, err = run_here("caption", models("caption"), "clip.gif")
    assert err == "regard: clip.gif: is an animation; only its first frame is used\n"


def test_names_come_on_standard_input_too(run_here, models):
    given = run_here("classify", models("picture"), "grey.png", "other.png")[0].splitlines()
    out, err = run_here("classify", models("picture"), stdin="grey.png\n\nother.png\n")
    assert (out.splitlines(), err) == ([given[0], "", given[1]], "")
    numbered = run_here("caption", models("caption"), "--n-best", 2, stdin="photo.png\n\nlarge.jpg")[0].splitlines()
    assert [line.split("\t")[0] for line in numbered] == ["1", "1", "2", "3", "3"]


def test_a_pipe_is_answered_line_by_line(models, files):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    words = command("classify", models("picture"))
    with subprocess.Popen(words, env=environment(), cwd=files, **pipes) as process:
        for name in (b"grey.png", b"", b"other.png"):
            process.stdin.write(name + b"\n")
            process.stdin.flush()
            assert (b"\t" in process.stdout.readline()) == bool(name)
        out, err = process.communicate(b"missing.png\n")
        assert (process.returncode, out, err.count(b"\n")) == (2, b"", 1)


# ---------------------------------------------------------------------------------------------------------- what is wrong

PICTURES = "pictures (PNG, JPEG, GIF, BMP, WebP)"
WRONG = [
    ("caption", "caption", "text.png", "text.png: is no picture that can be read; use PNG"),
    ("caption", "caption", "cut.png", "cut.png: the picture is damaged or cut off; save it again"),
    ("caption", "caption", "byte.png", "byte.png: is no picture that can be read"),
    ("caption", "caption", "none.png", "none.png: is no picture that can be read"),
    ("caption", "caption", "huge.png", "huge.png: has more than 25 million pixels; make it smaller"),
    ("caption", "caption", "drawing.svg", "drawing.svg: is no picture that can be read"),
    ("caption", "caption", "missing.png", f"missing.png does not exist; this model reads {PICTURES}: name a file"),
    ("caption", "caption", "no/such/folder/a.png", "a.png does not exist"),
    ("caption", "caption", "folder", f"folder is a folder; this model reads {PICTURES}"),
    ("caption", "caption", "", "an empty name was given; this model reads pictures"),
    ("caption", "caption", "speech.wav", "speech.wav: is no picture that can be read"),
    ("caption", "caption", "nul\0byte.png", "does not exist"),
    ("caption", "caption", "n" * 5000, "... does not exist"),
    ("classify", "picture", "a wonderful film", f"a wonderful film does not exist; this model reads {PICTURES}"),
    ("classify", "picture", "motion.csv", "motion.csv: is no picture that can be read"),
    ("classify", "picture", "cut.png", "cut.png: the picture is damaged or cut off"),
    ("classify", "text", "", "the text is empty"),
    ("classify", "series", "hole.csv", "hole.csv, line 3, column 'y': nothing is there; every cell must hold a number"),
    ("classify", "series", "words.csv", "words.csv, line 3, column 'y': 'five' is no number"),
    ("classify", "series", "wide.csv", "wide.csv: has 4 columns of numbers, but the model reads 3"),
    ("classify", "series", "narrow.csv", "narrow.csv: has 2 columns of numbers, but the model reads 3"),
    ("classify", "series", "ragged.csv", "ragged.csv, line 3: has 2 cells, but the first line names 3 columns"),
    ("classify", "series", "names.csv", "names.csv: names columns, but has no rows"),
    ("classify", "series", "none.csv", "none.csv: is empty"),
    ("classify", "series", "binary.csv", "binary.csv, line 1: is not text in UTF-8"),
    ("classify", "series", "missing.csv", "missing.csv does not exist; this model reads series (CSV)"),
    ("classify", "moves", "grey.png", "grey.png: is no GIF that can be read"),
    ("transcribe", "transcribe", "text.wav", "text.wav: not a sound file that can be read"),
    ("transcribe", "transcribe", "none.wav", "none.wav: not a sound file that can be read"),
    ("transcribe", "transcribe", "empty.wav", "empty.wav: holds no samples; record something"),
    ("transcribe", "transcribe", "long.wav", "long.wav: is 61 seconds long; 60 are the most, so cut it"),
    (
        "transcribe",
        "transcribe",
        "missing.wav",
        "missing.wav does not exist; this model reads recordings (WAV, FLAC, OGG)",
    ),
    ("transcribe", "transcribe", "folder", "folder is a folder; this model reads recordings"),
    ("transcribe", "transcribe", " ", "an empty name was given"),
    ("track", "track", "grey.png", "grey.png: is no GIF that can be read; save the clip as an animated GIF"),
    ("track", "track", "cut.gif", "cut.gif: is no GIF that can be read"),
    ("track", "track", "missing.gif", "missing.gif does not exist; this model reads clips (animated GIF)"),
    ("track", "track", "folder", "folder is a folder"),
    ("track", "track", "", "an empty name was given"),
]


@pytest.mark.parametrize(("task", "model", "argument", "message"), WRONG)
def test_what_cannot_be_read_is_one_line(task, model, argument, message, models, run_here):
    out, err = run_here(task, models(model), argument, code=2)
    assert out == "" and err.count("\n") == 1 and err.startswith("regard: ") and message in err, err
    assert len(err) < 400


def test_those_before_it_are_answered(run_here, models):
    alone = run_here("classify", models("picture"), "grey.png")[0]
    out, err = run_here("classify", models("picture"), "grey.png", "missing.png", "other.png", code=2)
    assert out == alone and "missing.png does not exist" in err
    out, err = run_here("classify", models("picture"), stdin="grey.png\n\nmissing.png\nother.png\n", code=2)
    assert out == alone + "\n" and err.count("\n") == 1


def test_a_file_that_may_not_be_read(run_here, models, monkeypatch):
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("regard.data.input.clip.read_gif", refuse)
    monkeypatch.setattr("regard.data.input.sound.read_sound", refuse)
    for task, name in (("track", "clip.gif"), ("transcribe", "speech.wav")):
        out, err = run_here(task, models(task), name, code=2)
        assert (out, err) == ("", f"regard: {name}: cannot be read (Permission denied); check the file\n")


@pytest.mark.parametrize(
    ("task", "model", "argument"),
    [("caption", "picture", "photo.png"), ("transcribe", "caption", "speech.wav"), ("track", "moves", "clip.gif")],
)
def test_a_model_of_another_task_is_refused(task, model, argument, models, run_here):
    _, err = run_here(task, models(model), argument, code=2)
    other = "caption" if model == "caption" else "classify"
    assert err.count("\n") == 1 and f"this model is made to {other}, not to {task}; use: regard {other}" in err


def test_a_model_that_is_not_there(run_here):
    for task in ("classify", "caption", "transcribe", "track"):
        assert "no model 'nowhere'" in run_here(task, "nowhere", "a.png", code=2)[1]


def test_a_text_model_is_shown_a_name_and_says_so(run_here, models):
    out, err = run_here("classify", models("text"), "photo.png", "a wonderful film")
    assert out.count("\n") == 2
    assert (
        err == "regard: photo.png: this model reads text, so the input is this name and not the content of the file\n"
    )
    assert run_here("classify", models("text"), "-q", "photo.png")[1] == ""


@pytest.mark.parametrize("option", [("--beam", 0), ("--n-best", 2000)])
def test_options_out_of_range(run_here, models, option):
    for task, name in (("caption", "photo.png"), ("transcribe", "speech.wav")):
        assert "wants a whole number from 1 to 1,000, given" in run_here(task, models(task), *option, name, code=2)[1]


# ------------------------------------------------------------------------------------------------- many, and where they go


def test_many_inputs_are_answered_some_at_a_time(monkeypatch, capfd):
    """In order, no more at once than allowed by count or by weight; a big one does not hold back the rest."""
    sizes: list[int] = []

    def use(raws: list[np.ndarray]) -> list[str]:
        sizes.append(len(raws))
        return [str(int(raw[0])) for raw in raws]

    def read(text: str) -> np.ndarray:
        return np.full(int(text) % 7 * 1000, int(text), np.int32) if int(text) % 7 else np.array([int(text)])

    monkeypatch.setattr(inputs, "MAX_BATCH", 10)
    monkeypatch.setattr(inputs, "MAX_BATCH_BYTES", 60_000)
    numbers = list(map(str, range(100)))
    inputs.answer(numbers, read, use, "example", quiet=True)
    assert capfd.readouterr().out.split() == numbers
    assert sum(sizes) == 100 and 1 < max(sizes) <= 10 and min(sizes) < 10


def test_a_recording_weighs_its_samples():
    assert inputs._size(example("transcribe")) == example("transcribe").samples.nbytes
    assert inputs._size("text") == inputs._size(["a", "b"]) == inputs._size(None) == 0


def through_terminals(*words: str, out_too: bool, cwd: Path) -> tuple[str, str]:
    """What a person sees: stderr on a terminal, and stdout too or in a file."""
    primary, secondary = pty.openpty()
    stdout = secondary if out_too else subprocess.PIPE
    with subprocess.Popen(
        command(*words),
        env=environment(TERM="xterm", COLUMNS="100"),
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=secondary,
        cwd=cwd,
    ) as process:
        os.close(secondary)
        out = process.stdout.read().decode() if process.stdout else ""
        seen = b""
        try:
            while piece := os.read(primary, 1 << 16):
                seen += piece
        except OSError:  # on Linux a terminal that is closed ends so
            pass
        assert process.wait() == 0
    os.close(primary)
    return out, seen.decode()


def test_many_inputs_show_how_far_it_is(models, files):
    out, seen = through_terminals("classify", models("picture"), *["grey.png"] * 300, out_too=False, cwd=files)
    assert out.count("\n") == 300 and "answered" in seen and "300/300" in seen
    _, seen = through_terminals("classify", models("picture"), "-q", *["grey.png"] * 300, out_too=False, cwd=files)
    assert seen == ""


def test_columns_stay_columns_where_a_person_reads(models, files):
    _, seen = through_terminals("classify", models("picture"), "grey.png", out_too=True, cwd=files)
    assert seen.count("\t") == 5 and "\\x09" not in seen


def test_through_a_real_process(models, files):
    done = regard_process("caption", models("caption"), "photo.png", cwd=files, text=True)
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (0, "", 1)
    done = regard_process("caption", models("caption"), "cut.png", cwd=files, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("task", ["classify", "caption", "transcribe", "track"])
def test_help_comes_without_torch(task):
    assert not {"torch", "numpy", "PIL", "soundfile"} & imported(task, "--help")[1]
