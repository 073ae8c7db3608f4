"""A recipe's `vectors`: copied into the weights when training begins, reported, and never a path in a saved model."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import regard
from regard.assemble import build_model, resolve_model
from regard.config import Recipe, apply_overrides, read_recipe, recipe_from_dict, tiny_form
from regard.data.vectors.file import write_vectors
from regard.data.vectors.near import Vectors
from regard.errors import UserError
from regard.loading import read_model
from regard.runs import resolve
from regard.storage import read_folder
from regard.training.listener import Quiet

WORDS = ["wonderful", "boring", "story", "scene", "never-seen"]


class Notes(Quiet):
    def __init__(self):
        self.told = []

    def note(self, text):
        self.told.append(text)


@pytest.fixture
def file(tmp_path):
    def make(width, words=WORDS, name="v.txt"):
        values = np.random.default_rng(1).standard_normal((len(words), width)).astype(np.float32) * 3
        write_vectors(tmp_path / name, Vectors(words, values))
        return tmp_path / name, dict(zip(words, torch.from_numpy(values)))

    return make


def classifier(*more: str) -> Recipe:
    recipe = tiny_form(read_recipe("sentiment-lstm"))
    return apply_overrides(recipe, ["training.steps=1", "training.learning_rate=1e-30", *more])


def table_of(run, part="stem"):
    _, codec, model = read_model(read_folder(run.folder / "model"))
    tokenizer = codec.input.tokenizer if hasattr(codec, "input") else codec
    return tokenizer, getattr(model, part).embedding.table.weight.detach()


def row(tokenizer, table, word):
    (id,) = tokenizer.encode(word)
    return table[id]


def test_a_classifier_begins_with_them_and_the_saved_model_names_no_file(file, tmp_path):
    width = resolve(classifier()).model["stem"]["width"]
    path, vectors = file(width)
    notes = Notes()
    run = regard.train(
        classifier(f"model.stem.vectors={path}"), "tokenizer.kind=word", folder=tmp_path / "run", report=notes
    )
    plain = regard.train(classifier(), "tokenizer.kind=word", folder=tmp_path / "plain", quiet=True)
    tokenizer, table = table_of(run)
    _, drawn = table_of(plain)
    factor = row(tokenizer, table, "story").norm() / vectors["story"].norm()
    for word in WORDS[:-1]:
        torch.testing.assert_close(row(tokenizer, table, word), vectors[word] * factor, rtol=1e-4, atol=1e-6)
    others = [i for i in range(len(table)) if tokenizer.surfaces([i])[0].strip() not in WORDS]
    assert len(others) > 5 and torch.equal(table[others], drawn[others]), "words without a vector begin as usual"
    copied = torch.stack([row(tokenizer, table, word) for word in WORDS[:-1]])
    assert copied.square().mean().sqrt().item() == pytest.approx(drawn.square().mean().sqrt().item(), rel=1e-3)
    (told,) = [note for note in notes.told if "have a vector" in note]
    assert told.startswith("model.stem: 4 of ") and str(path) in told
    for saved in ("model", "checkpoints"):
        recipes = [found.read_text() for found in (tmp_path / "run" / saved).rglob("recipe.toml")]
        assert recipes and not any("vectors" in text or str(path) in text for text in recipes)
    path.unlink()
    assert run.model.classify(["a wonderful story"])  # loads without the file


def test_a_language_models_decoder_and_all_parts_at_once(file, tmp_path):
    recipe = apply_overrides(
        tiny_form(read_recipe("gpt-shakespeare")),
        ['tokenizer={kind = "word"}', "training.steps=1", "training.learning_rate=1e-30"],
    )
    width = resolve(recipe).model["decoder"]["width"]
    path, vectors = file(width, ["king", "fool", "the"])
    run = regard.train(recipe, f"model.vectors={path}", folder=tmp_path / "run", quiet=True)
    tokenizer, table = table_of(run, "decoder")
    (id,) = [i for i in range(len(tokenizer)) if tokenizer.surfaces([i])[0] == " king"]
    assert torch.cosine_similarity(table[id], vectors["king"], dim=0).item() == pytest.approx(1, abs=1e-5)


def test_a_resumed_run_needs_the_file_no_more(file, tmp_path):
    width = resolve(classifier()).model["stem"]["width"]
    path, _ = file(width)
    recipe = classifier(f"model.stem.vectors={path}", "training.save_every=1")
    regard.train(recipe, "tokenizer.kind=word", folder=tmp_path / "run", quiet=True)
    path.unlink()
    run = regard.train(None, "training.steps=2", folder=tmp_path / "run", resume=True, quiet=True)
    assert run.reason == "steps"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["model.stem.vectors=none.txt"], "none.txt does not exist"),
        (
            ["model.stem.vectors=narrow.txt"],
            r"model.stem.vectors: .*narrow.txt has vectors of 3 numbers, but the embedding is",
        ),
        (["model.stem.vectors=strange.txt"], "none of the .* words of the vocabulary is in"),
        (["model.stem.vectors={a = 1}"], "model.stem.vectors: wants text, given"),
        (["model.stem.vectors=[3]"], r"model.stem.vectors: wants text, given \[3\]"),
        (["model.encoder.vectors=v.txt"], "model.encoder: no key 'vectors'"),
        (["model.stem.vectors=v.txt", "training.from=fr-en"], "training.from brings its own embeddings"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_mistake_is_one_line_and_leaves_no_run(settings, message, file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    width = resolve(classifier()).model["stem"]["width"]
    file(width)
    file(3, name="narrow.txt")
    file(width, ["qqq"], name="strange.txt")
    with pytest.raises(UserError, match=message):
        regard.train(classifier(*settings), "tokenizer.kind=word", folder=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run" / "model").exists()


def test_the_key_is_kept_only_where_it_is_stated_and_building_opens_nothing():
    stated = {"stem": {"vectors": "somewhere.txt"}, "width": 16, "heads": 2, "layers": 1, "feed_forward": 16}
    resolved = resolve_model(stated)
    assert resolved["stem"]["vectors"] == "somewhere.txt" and "vectors" not in resolved["decoder"]
    assert resolve_model(resolved) == resolved
    assert "vectors" not in resolve_model({"stem": {"vectors": ""}})["stem"]
    build_model(resolved, vocabulary=9)  # no such file: a saved recipe that names one makes nobody read it
    assert recipe_from_dict({"model": stated}).model == stated
