"""A CTranslate2 folder, read, says what CTranslate2 says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from regard.assemble import build_model, resolve_model
from regard.config import Recipe
from regard.data.batching import pad
from regard.data.tokenizer.word import Word
from regard.decoding.greedy import greedy
from regard.decoding.rules import MinLength
from regard.find_model import read_recipe_of
from regard.interchange import export
from regard.interchange.read.ctranslate2 import read
from regard.loading import assign_weights, model_files
from regard.storage import read_folder, write_folder
from regard.types import BEGIN, END

pytest.importorskip("ctranslate2")
pytest.importorskip("transformers")
from tests.interchange import made_ctranslate2 as made

LENGTH = 14


def model_of(imported):
    model = build_model(imported.recipe.model, **imported.tokenizer.sizes()).eval()
    assign_weights(model, imported.weights, "the imported model")
    return model


@torch.no_grad()
def check(folder: Path, count: int) -> None:
    imported = read(folder, lambda text: None)
    model, tokenizer, theirs = model_of(imported), imported.tokenizer, made.translator(folder)
    sources = [tokenizer.encode(text) for text in made.sentences(count)]
    assert len({i for ids in sources for i in ids}) > 40
    spelled = [tokenizer.pieces(ids) + (["</s>"] if imported.recipe.data.source_end else []) for ids in sources]
    config = folder / "config.json"
    if config.exists() and json.loads(config.read_text())["add_source_eos"]:
        spelled = [tokenizer.pieces(ids) for ids in sources]
    ids, mask = pad([[*one, END] if imported.recipe.data.source_end else one for one in sources])
    lengths = torch.full((count,), LENGTH)
    ours = greedy(model.decoder, model.encode(ids, mask), max_lengths=lengths, rules=[MinLength(1)])
    texts = [tokenizer.target.pieces(one.ids) for one in ours]
    found = theirs.translate_batch(spelled, beam_size=1, max_decoding_length=LENGTH)
    assert [one.hypotheses[0] for one in found] == texts
    assert len({tuple(text) for text in texts}) > count // 16  # else it were easy to agree
    scored = theirs.score_batch(spelled[:5], texts[:5])
    target, _ = pad([[BEGIN, *one.ids, END] for one in ours[:5]])
    log_probs = model(ids[:5], mask[:5], target[:, :-1]).log_softmax(-1).gather(2, target[:, 1:, None])[..., 0]
    for row, (one, score) in enumerate(zip(ours, scored)):
        assert log_probs[row, : len(one.ids) + 1].tolist() == pytest.approx(score.log_probs, abs=1e-4)


@pytest.mark.parametrize("name", made.MODELS)
def test_models_of_transformers(name, tmp_path):
    check(made.converted(name, tmp_path), 200)


@pytest.mark.parametrize("separate", [True, False])
def test_models_of_opennmt(separate, tmp_path):
    check(made.opennmt(tmp_path / "model", separate=separate), 200)


@pytest.mark.parametrize("precision", ["int8", "int16", "float16", "bfloat16"])
@pytest.mark.parametrize("name", ["marian", "t5, gated, untied, narrow heads", "opennmt"])
def test_other_precisions_are_dequantised(name, precision, tmp_path):
    opennmt = name == "opennmt"
    check(made.opennmt(tmp_path / "model", precision) if opennmt else made.converted(name, tmp_path, precision), 40)


def test_positions_that_are_not_stored_are_computed(tmp_path):
    """OpenNMT-tf's models hold none."""
    folder = made.opennmt(tmp_path / "model", positions=False)
    assert read(folder, print).recipe.model["stem"]["position"]["kind"] == "sinusoidal_halves"
    check(folder, 60)


@pytest.mark.parametrize("version, revision", [(5, 6), (4, 5), (3, 4), (2, 3)])
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_folders_of_older_versions(version, revision, precision, tmp_path):
    new = read(made.opennmt(tmp_path / "model", precision), print)
    folder = made.older(tmp_path / "model", version, revision)
    old = read(folder, print)
    assert old.recipe == new.recipe and old.weights.keys() == new.weights.keys()
    assert all(torch.equal(old.weights[name], new.weights[name]) for name in new.weights)
    check(folder, 20)


def test_a_source_ends_as_config_and_vocabulary_say(tmp_path):
    folder = made.opennmt(tmp_path / "with", add_source_eos=True)
    assert read(folder, print).recipe.data.source_end
    check(folder, 40)
    without = read(made.opennmt(tmp_path / "without"), print)
    assert not without.recipe.data.source_end
    assert "does not" in without.notes[0]
    assert read(made.converted("t5", tmp_path), print).recipe.data.source_end


KINDS = {
    "the paper's": {},
    "pre-norm": {"norm": "pre", "activation": "gelu"},
    "learned positions": {"position": {"kind": "learned", "length": 40}, "scale": False},
    "tables of their own": {"share": False, "decoder": {"tie": False, "output_bias": True, "embedding_norm": True}},
    "like T5": {
        "norm": "pre", "norm_kind": "rms", "bias": False, "gated": True, "head_width": 4, "position": "none",
        "relative_position": {"kind": "buckets", "buckets": 8, "distance": 20}, "activation": "gelu_tanh",
    },
    "like NLLB": {"norm": "pre", "position": {"kind": "sinusoidal_halves", "offset": 2, "inclusive": True}},
    "like Marian": {"activation": "silu", "position": "sinusoidal_halves", "decoder": {"output_bias": True}},
}  # fmt: skip
SHAPE = {"width": 16, "heads": 2, "layers": 2, "feed_forward": 32, "dropout": 0.0}


def own_folder(tree: dict, place: Path) -> tuple[Path, dict]:
    torch.manual_seed(4)
    words = Word([f"▁w{i}" for i in range(40)])
    shape = resolve_model({**SHAPE, **tree})
    model = build_model(shape, len(words))
    weights = {name: (w + 0.2 * torch.randn_like(w)).detach() for name, w in model.named_parameters()}
    write_folder(place, model_files(Recipe(model=shape, tokenizer={"kind": "word"}), words, weights, "float32"))
    return place, weights


@pytest.mark.parametrize("kind", KINDS)
def test_what_we_export_comes_back(kind, tmp_path):
    folder, weights = own_folder(KINDS[kind], tmp_path / "model")
    out = export(folder, tmp_path / "out", format="ctranslate2", precision="float32")
    found = read(out, print)
    assert found.weights.keys() == weights.keys()
    assert all(torch.equal(found.weights[name], weights[name]) for name in weights)
    stated = read_recipe_of(read_folder(folder)).model
    assert found.recipe.model | {"stem": 0, "encoder": 0, "decoder": 0} == stated | {
        "stem": 0,
        "encoder": 0,
        "decoder": 0,
    }
    for part in ("stem", "encoder", "decoder"):
        assert found.recipe.model[part] | {"dropout": 0} == stated[part] | {"dropout": 0}
    assert isinstance(found.tokenizer, Word)
    small = read(export(folder, tmp_path / "small", format="ctranslate2", precision="int8"), print)
    assert all((small.weights[name] - weights[name]).abs().max() < 0.03 for name in weights)
