"""Imported models in the CTranslate2 engine: what torch says, and what CTranslate2 said of the folder they came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.engines import load_with
from regard.interchange.read.ctranslate2 import read
from regard.loading import model_files
from regard.storage import write_folder

pytest.importorskip("ctranslate2")
pytest.importorskip("transformers")
from tests.interchange import made_ctranslate2 as made


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
