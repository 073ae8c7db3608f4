"""Imported models in the CTranslate2 engine: what torch says, and what CTranslate2 said of the folder they came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.engines import load_with
from regard.interchange import export
from regard.interchange.read import hugging_face
from regard.interchange.read.ctranslate2 import read
from regard.loading import model_files
from regard.storage import write_folder

pytest.importorskip("ctranslate2")
pytest.importorskip("transformers")
from tests.interchange import made_ctranslate2 as made
from tests.interchange import made_folders
from tests.interchange.made_folders import VARIANTS
from tests.interchange.test_families import PAIRS


def imported(place: Path, folder: Path) -> Path:
    found = read(folder, lambda text: None)
    write_folder(place, model_files(found.recipe, found.tokenizer, found.weights, "float32"))
    return place


@pytest.mark.parametrize("name", ["opennmt", "marian", "m2m100", "bart", "t5, gated, untied, narrow heads"])
def test_both_engines_say_the_same(name, tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    source = made.opennmt(tmp_path / "theirs") if name == "opennmt" else made.converted(name, tmp_path)
    place = imported(tmp_path / "model", source)
    torch, fast = (load_with(place, device="cpu", engine=engine, threads=1) for engine in ("torch", "ctranslate2"))
    texts = made.sentences(60)
    ours, theirs = (engine.translate(texts, beam=1, max_length=12) for engine in (torch, fast))
    assert [one.tokens for one in ours] == [one.tokens for one in theirs]
    assert [one.log_probability for one in ours] == pytest.approx([one.log_probability for one in theirs], abs=2e-3)
    assert len({one.text for one in ours}) > 5  # else it were easy to agree
    aligned = [engine.translate(texts[:5], beam=1, max_length=12, alignment=True) for engine in (torch, fast)]
    for one, other in zip(*aligned):
        assert one.attention.shape == other.attention.shape
    assert fast.engine == "ctranslate2" and fast.translate(texts[0], n_best=2).alternatives


@pytest.mark.parametrize("name", VARIANTS)
def test_families_of_hugging_face(name, tmp_path, monkeypatch):
    """CTranslate2 runs all of them, language tags and separate vocabularies included."""
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    make, changes = VARIANTS[name]
    make(tmp_path / "theirs", **changes)
    found = hugging_face.read(tmp_path / "theirs")
    write_folder(tmp_path / "model", model_files(found.recipe, found.tokenizer, found.weights, "float32"))
    fast = load_with(tmp_path / "model", device="cpu", engine="ctranslate2", threads=1)
    torch = fast.with_torch()
    languages = dict(zip(("source", "target"), PAIRS.get(name, ())))
    texts = made_folders.texts(25)
    ours, theirs = (engine.translate(texts, beam=1, max_length=8, **languages) for engine in (torch, fast))
    assert [one.tokens for one in theirs] == [one.tokens for one in ours]
    assert [one.log_probability for one in theirs] == pytest.approx([one.log_probability for one in ours], abs=2e-3)
    assert len({one.text for one in ours}) > 3
    back = read(export(tmp_path / "model", tmp_path / "out", format="ctranslate2", precision="float32"), print)
    assert back.weights.keys() == found.weights.keys()
    assert all((back.weights[key] - found.weights[key]).abs().max() < 1e-6 for key in found.weights)
    assert type(back.tokenizer) is type(found.tokenizer) and back.tokenizer.sizes() == found.tokenizer.sizes()
    assert set(back.recipe.languages.target) == set(found.recipe.languages.target) or "mbart" in name
