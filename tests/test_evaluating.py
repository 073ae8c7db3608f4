"""`regard.evaluate` and its command on labelled files of every task."""

from __future__ import annotations

import gzip
import io
import json
import struct
import sys
import wave
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import regard
from regard.config import apply_overrides, read_recipe, tiny_form
from regard.errors import UserError
from regard.evaluation.translation import corpus_scores

QUICK = ["training.steps=1", "training.validate_every=1", "training.device=cpu", "data.valid_limit=4"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Runs of a single step on made data, by recipe."""
    made: dict[str, Path] = {}

    def run(recipe: str) -> Path:
        if recipe not in made:
            folder = tmp_path_factory.mktemp("runs") / recipe
            made[recipe] = regard.train(
                apply_overrides(tiny_form(read_recipe(recipe)), QUICK), folder=folder, quiet=True
            ).folder
        return made[recipe]

    return run


def picture(size: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (size, size), (200, 0, 0)).save(file, format="PNG")
    return file.getvalue()


def sentiment(folder: Path, model) -> list[Path]:
    labels = model.labels.names
    (folder / "t.tsv").write_text("".join(f"a fine film\t{label}\n" for label in labels), encoding="utf-8")
    return [folder / "t.tsv"]


def tags(folder: Path, model) -> list[Path]:
    (folder / "t.conll").write_text("Anna\tO\nsings\tO\n\nHello\tO\n", encoding="utf-8")
    return [folder / "t.conll"]


def lines(folder: Path, model) -> list[Path]:
    (folder / "t.txt").write_text("Anna sings a song.\nIt is a test of many words.\n", encoding="utf-8")
    return [folder / "t.txt"]


def series(folder: Path, model) -> list[Path]:
    columns = len(model.series.columns)
    rows = [",".join(f"c{i}" for i in range(columns))]
    rows += [",".join(f"{np.sin(t / 5 + i):.4f}" for i in range(columns)) for t in range(200)]
    (folder / "t.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return [folder / "t.csv"]


def sounds(folder: Path, model) -> list[Path]:
    place = folder / "recordings"
    place.mkdir()
    for digit in (0, 1):
        with wave.open(str(place / f"{digit}_anna_0.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(8000)
            file.writeframes((8000 * np.sin(np.arange(4000) / (5 + digit))).astype("<i2").tobytes())
    return [place]


def captions(folder: Path, model) -> list[Path]:
    with zipfile.ZipFile(folder / "t.zip", "w") as archive:
        archive.writestr("one.png", picture(16))
    (folder / "t.tsv").write_text("one.png\ta red square\n", encoding="utf-8")
    return [folder / "t.zip", folder / "t.tsv"]


def transcripts(folder: Path, model) -> list[Path]:
    (place,) = sounds(folder, model)
    (folder / "t.tsv").write_text("0_anna_0.wav\tone low\n1_anna_0.wav\tone high\n", encoding="utf-8")
    return [place, folder / "t.tsv"]


def digits_of_any_index(folder: Path, model) -> list[Path]:
    (place,) = sounds(folder, model)
    for digit in (0, 1):
        (place / f"{digit}_anna_0.wav").rename(place / f"{digit}_anna_{40 + digit}.wav")
    return [place]


def clip() -> bytes:
    pictures = [Image.new("L", (16, 16), 10 * number) for number in range(4)]
    file = io.BytesIO()
    pictures[0].save(file, format="GIF", save_all=True, append_images=pictures[1:])
    return file.getvalue()


def tracks(folder: Path, model) -> list[Path]:
    with zipfile.ZipFile(folder / "t.zip", "w") as archive:
        archive.writestr("one.gif", clip())
    rows = [f"one.gif,{frame},0.5,{frame / 10}" for frame in range(1, 5)]
    (folder / "t.csv").write_text("\n".join(["clip,frame,x,y", *rows]), encoding="utf-8")
    return [folder / "t.zip", folder / "t.csv"]


def clips(folder: Path, model) -> list[Path]:
    with zipfile.ZipFile(folder / "t.zip", "w") as archive:
        for label in model.labels.names:
            archive.writestr(f"{label}/one.gif", clip())
    return [folder / "t.zip"]


def motions(folder: Path, model) -> list[Path]:
    features = model.pair.input.sizes()["features"]
    labels = [name.replace(" ", "_") for name in model.labels.names]
    values = ":".join(",".join(f"{np.sin(t / 3 + i):.3f}" for t in range(20)) for i in range(features))
    lines = [f"@classLabel true {' '.join(labels)}", "@data", *(f"{values}:{label}" for label in labels)]
    (folder / "t.ts").write_text("\n".join(lines), encoding="utf-8")
    return [folder / "t.ts"]


def pieces(folder: Path, model) -> list[Path]:
    (folder / "t.json").write_text(json.dumps([[[60, 64], [62, 65]] * 8]), encoding="utf-8")
    return [folder / "t.json"]


EVERY = [
    ("sentiment-lstm", sentiment, "accuracy"),
    ("entities-bilstm", tags, "f1"),
    ("bert-english", lines, "loss"),
    ("char-rnn-shakespeare", lines, "perplexity"),
    ("forecast-airline", series, "mse"),
    ("speech-digits", sounds, "loss"),
    ("speech-digits", digits_of_any_index, "loss"),
    ("speech-digits", transcripts, "loss"),
    ("track-clips", tracks, "error"),
    ("activity-clips", clips, "accuracy"),
    ("activity-watch", motions, "accuracy"),
    ("music-lstm", pieces, "loss"),
    ("caption-attention", captions, "loss"),
]


@pytest.mark.parametrize(
    ("recipe", "files", "score"), EVERY, ids=[f"{name} {files.__name__}" for name, files, _ in EVERY]
)
def test_every_task_is_evaluated_on_labelled_files(recipe, files, score, trained, tmp_path, monkeypatch, run_regard):
    run = trained(recipe)
    model = regard.load(run, device="cpu")
    written = files(tmp_path, model)
    scores = regard.evaluate(model, *written)
    assert score in scores and np.isfinite(list(scores.values())).all()
    assert regard.evaluate(run / "model", *map(str, written), device="cpu") == pytest.approx(scores)
    out, err = run_regard("evaluate", "-m", run, *written, "--json", "--device", "cpu")
    found = json.loads(out)
    assert err == "" and found.pop("model") == str(run) and found == pytest.approx(scores)


def test_the_scores_are_those_of_the_labels(trained, tmp_path):
    model = regard.load(trained("sentiment-lstm"), device="cpu")
    texts = ["a boring scene", "a wonderful film", "no", "it was long"]
    right = [str(one) for one in model.classify(texts)]
    wrong = [next(name for name in model.labels.names if name != label) for label in right]
    for labels, accuracy in ((right, 100), (wrong, 0), ([*right[:2], *wrong[2:]], 50)):
        (tmp_path / "t.tsv").write_text("".join(f"{t}\t{n}\n" for t, n in zip(texts, labels)), encoding="utf-8")
        assert regard.evaluate(model, tmp_path / "t.tsv")["accuracy"] == pytest.approx(accuracy)
    (tmp_path / "t.tsv").write_text("a film\tunheard-of\n", encoding="utf-8")
    with pytest.raises(UserError, match="unheard-of"):
        regard.evaluate(model, tmp_path / "t.tsv")


def test_data_format_settings_read_other_columns(trained, tmp_path, monkeypatch, run_regard):
    run = trained("sentiment-lstm")
    label = regard.load(run, device="cpu").labels.names[0]
    (tmp_path / "t.tsv").write_text(f"{label}\tx\ta film\n", encoding="utf-8")
    keys = ["data.format.text=3", "data.format.label=1"]
    assert "accuracy" in run_regard("evaluate", run, tmp_path / "t.tsv", *keys)[0]


def test_files_are_found_in_the_folder_of_data_sets(trained, tmp_path, monkeypatch, run_regard):
    run = trained("bert-english")
    (tmp_path / "data").mkdir()
    lines(tmp_path / "data", None)
    monkeypatch.chdir(tmp_path)
    assert "loss" in run_regard("evaluate", run, "t.txt")[0]
    assert "loss" in run_regard("evaluate", run, "t.txt", "--data", tmp_path / "data")[0]
    assert "t.txt does not exist" in run_regard("evaluate", run, "t.txt", "--data", "x", code=2)[1]


def test_a_shipped_classifier_reads_the_files_of_its_data_set(tmp_path):
    pixels = np.zeros((10, 28, 28), np.uint8)
    images = struct.pack(">BBBBIII", 0, 0, 8, 3, 10, 28, 28) + pixels.tobytes()
    labels = struct.pack(">BBBBI", 0, 0, 8, 1, 10) + bytes(range(10))
    for name, content in (("images.gz", images), ("labels.gz", labels)):
        (tmp_path / name).write_bytes(gzip.compress(content))
    scores = regard.evaluate("fashion", tmp_path / "images.gz", tmp_path / "labels.gz", device="cpu")
    assert scores["accuracy"] == pytest.approx(10)  # all alike, so one of the ten labels is right


def test_without_files(trained, tmp_path, monkeypatch, run_regard):
    run = trained("sentiment-lstm")
    regard.evaluate(run, device="cpu")  # a run knows its own
    for model in (run / "model", "fashion"):
        with pytest.raises(UserError, match=r"names no files to test on; give labelled ones: regard evaluate .* FILE"):
            regard.evaluate(model)
    with pytest.raises(UserError, match="no files to evaluate on"):
        regard.evaluate(regard.load(run, device="cpu"))
    with pytest.raises(UserError, match="beam: only translators"):
        regard.evaluate(run, sentiment(tmp_path, regard.load(run))[0], beam=2)


# --------------------------------------------------------------------------------------------- Moses-tokenised BLEU

TEXTS = ["It's over, isn't it?", "They said: we won (at last)."]


def test_moses_tokens_are_counted_as_moses_makes_them():
    from sacremoses import MosesTokenizer

    outputs = ["It's over, is it?", "They said: we won."]
    moses = MosesTokenizer(lang="en")
    by_hand = [[moses.tokenize(t, return_str=True, escape=False) for t in side] for side in (outputs, TEXTS)]
    found = corpus_scores(outputs, TEXTS, tokenize="moses", language="en")
    assert found.bleu == pytest.approx(corpus_scores(*by_hand, tokenize="none").bleu)
    assert found.chrf == pytest.approx(corpus_scores(outputs, TEXTS).chrf) and "tok:moses-en" in found.bleu_signature


def test_a_translator_is_scored_as_papers_tokenise(tmp_path, run_regard):
    (tmp_path / "t.tsv").write_text("Je suis étudiant.\tI AM A STUDENT.\nOù est la gare ?\tWHERE IS THE STATION?\n")
    words = ["evaluate", "fr-en", tmp_path / "t.tsv", "--tokenize", "moses", "-q", "--json", "--device", "cpu"]
    cased, lower = (json.loads(run_regard(*words, *more)[0]) for more in ((), ("--lowercase",)))
    assert "tok:moses-en" in cased["bleu_signature"] and "case:mixed" in cased["bleu_signature"]
    assert "case:lc" in lower["bleu_signature"] and lower["bleu"] > cased["bleu"] + 10


def test_without_sacremoses_or_a_language_moses_is_refused_before_work(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(UserError, match=r"pip install 'regard\[moses\]'"):
        corpus_scores(TEXTS, TEXTS, tokenize="moses", language="en")
    with pytest.raises(UserError, match="needs the language of the translations"):
        corpus_scores(TEXTS, TEXTS, tokenize="moses")
