"""What `regard export --format ctranslate2` writes gives the same results in CTranslate2."""

from __future__ import annotations

import json
import sys
from itertools import product
from pathlib import Path

import pytest
import torch

import regard
from regard.assemble import build_model, resolve_model
from regard.cli.export import Precision, Program
from regard.cli.export import export as command
from regard.config import Recipe
from regard.data.tokenizer._base import SPECIALS
from regard.data.tokenizer.subword import Subword
from regard.data.tokenizer.word import Word
from regard.decoding.greedy import greedy
from regard.decoding.rules import MinLength
from regard.errors import UserError
from regard.interchange import ctranslate2 as interchange
from regard.loading import export, model_files
from regard.storage import write_folder
from regard.types import BEGIN, END
from regard.weights import load_tensors

ctranslate2 = pytest.importorskip("ctranslate2")

VOCABULARY = 60
PIECES = SPECIALS + [f"t{i}" for i in range(len(SPECIALS), VOCABULARY)]
SHAPE = {"width": 32, "heads": 4, "layers": 2, "feed_forward": 64, "dropout": 0.0}
LINES = ["je suis étudiant.", "où est la gare ?", "elle a lu ce livre deux fois.", "Oui, bien sûr !"]


def random_model(tree: dict | None = None):
    """Every weight is moved, so that none can be left out unnoticed: fresh norms and biases are ones and zeros."""
    torch.manual_seed(7)
    model = build_model({**SHAPE, **(tree or {})}, VOCABULARY).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def spelled(sentences: list[list[int]]) -> list[list[str]]:
    return [[PIECES[i] for i in ids] for ids in sentences]


def random_sentences(*lengths: int) -> list[list[int]]:
    torch.manual_seed(8)
    return [torch.randint(len(SPECIALS), VOCABULARY, (length,)).tolist() for length in lengths]


@torch.no_grad()
def our_scores(model, source: list[int], target: list[int]) -> list[float]:
    ids = torch.tensor([[*source, END]])
    logits = model(ids, torch.ones_like(ids, dtype=torch.bool), torch.tensor([[BEGIN, *target]]))[0]
    return logits.log_softmax(-1).gather(1, torch.tensor([*target, END])[:, None])[:, 0].tolist()


@torch.no_grad()
def our_greedy(model, source: list[int], length: int) -> list[int]:
    ids = torch.tensor([[*source, END]])
    memory = model.encode(ids, torch.ones_like(ids, dtype=torch.bool))
    return greedy(model.decoder, memory, max_lengths=torch.tensor([length]), rules=[MinLength(1)])[0].ids


KINDS = {
    "the paper's": {},
    "pre-norm": {"norm": "pre"},
    "deep encoder, shallow decoder": {"norm": "pre", "encoder": {"layers": 3}, "decoder": {"layers": 1}},
    "learned positions": {"position": {"kind": "learned", "length": 40}},
    "no positions": {"position": "none"},
    "shifted positions": {"position": "shifted"},
    "gelu": {"activation": "gelu"},
    "gelu by tanh": {"activation": "gelu_tanh"},
    "tables of their own": {"share": False},
    "untied output": {"decoder": {"tie": False}},
    "no scale": {"scale": False},
    "normed embedding": {"stem": {"embedding_norm": True}},
    "other heads in the decoder": {"decoder": {"heads": 2}},
}


@pytest.mark.parametrize("kind", KINDS)
def test_scores_and_greedy_texts_are_ours(kind, tmp_path):
    model = random_model(KINDS[kind])
    interchange.write(model, PIECES, tmp_path / "out")
    theirs = ctranslate2.Translator(str(tmp_path / "out"), intra_threads=1)
    sources, targets = random_sentences(3, 9, 1), random_sentences(4, 2, 7)
    scored = theirs.score_batch(spelled(sources), spelled(targets))  # together: what is padded must not matter
    for source, target, found in zip(sources, targets, scored):
        assert found.log_probs == pytest.approx(our_scores(model, source, target), abs=1e-4)
    written = theirs.translate_batch(spelled(sources), beam_size=1, max_decoding_length=15)
    ours = [our_greedy(model, source, 15) for source in sources]
    assert [found.hypotheses[0] for found in written] == spelled(ours)
    assert KINDS[kind].get("scale") is False or len({tuple(ids) for ids in ours}) > 1  # else it were easy to agree


@pytest.mark.parametrize("precision, off", [("int8", 0.3), ("int16", 0.05), ("bfloat16", 0.3), ("float16", 0.05)])
def test_other_precisions_are_near(precision, off, tmp_path):
    model = random_model({"norm": "pre"})
    interchange.write(model, PIECES, tmp_path / "out", precision)
    interchange.write(model, PIECES, tmp_path / "whole")
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("out", "whole")]
    assert sizes[0] < 0.8 * sizes[1]
    (source,), (target,) = random_sentences(6), random_sentences(8)
    untouched = random_model({"norm": "pre"}).named_parameters()
    assert all(torch.equal(dict(model.named_parameters())[name], weight) for name, weight in untouched)
    theirs = ctranslate2.Translator(str(tmp_path / "out"), intra_threads=1)
    (found,) = theirs.score_batch(spelled([source]), spelled([target]))
    ours = our_scores(model, source, target)
    assert found.log_probs == pytest.approx(ours, abs=off)
    assert found.log_probs != pytest.approx(ours, abs=1e-6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A small model with a tokenizer of subwords, as training leaves it."""
    tokenizer = Subword.train(LINES, seed=1, size=300)
    shape = resolve_model(SHAPE)
    torch.manual_seed(9)
    weights = {name: 2 * w.detach() for name, w in build_model(shape, len(tokenizer)).named_parameters()}
    place = tmp_path_factory.mktemp("models") / "model"
    write_folder(place, model_files(Recipe(model=shape), tokenizer, weights, "float32"))
    return place


def test_the_command_writes_all_that_a_user_needs(folder, tmp_path, capsys):
    import sentencepiece

    out = tmp_path / "new" / "out"
    command(str(folder), out, Program.ctranslate2, Precision.float32)
    assert str(out) in capsys.readouterr().out
    assert {path.name for path in out.iterdir()} == {
        "config.json", "model.bin", "shared_vocabulary.json", "tokenizer.model"
    }  # fmt: skip
    assert list(out.parent.iterdir()) == [out]
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(out / "tokenizer.model"))
    theirs = ctranslate2.Translator(str(out), intra_threads=1)
    (found,) = theirs.translate_batch([pieces.encode(LINES[1], out_type=str)], beam_size=1, max_decoding_length=10)
    ours = regard.load(folder, device="cpu")
    assert pieces.decode(found.hypotheses[0]) == ours.tokenizer.decode(
        our_greedy(ours.model, ours.encode(LINES[1]), 10)
    )
    assert json.loads((out / "shared_vocabulary.json").read_text()) == ours.tokenizer.pieces(range(len(ours.tokenizer)))
    with pytest.raises(UserError, match="already exists"):
        command(str(folder), out, Program.ctranslate2)


def test_int8_of_int8_rounds_nothing_again(folder, tmp_path):
    """Both keep 127 steps on either side and one scale a row, so a model that ships in int8 loses nothing more."""
    export(folder, tmp_path / "small", "int8")
    stored = load_tensors(tmp_path / "small" / "weights.safetensors")
    model = regard.load(tmp_path / "small", device="cpu").model
    spec = interchange.specification(model, [str(i) for i in range(len(model.stem.embedding.table.weight))])
    spec.validate()
    spec.optimize("int8")
    for theirs, name in (
        (spec.encoder.layer[1].ffn.linear_0, "encoder.layers.1.feed_forward.inward.weight"),
        (spec.decoder.layer[0].self_attention.linear[0], "decoder.layers.0.attention.inward.weight"),
    ):
        assert (theirs.weight.numpy() == stored[name].numpy()).all()


def test_words_are_a_vocabulary_too(tmp_path):
    tokenizer = Word.train(LINES, seed=1)
    shape = resolve_model(SHAPE)
    weights = dict(build_model(shape, len(tokenizer)).named_parameters())
    recipe = Recipe(model=shape, tokenizer={"kind": "word"})
    write_folder(tmp_path / "model", model_files(recipe, tokenizer, weights, "float32"))
    interchange.export(tmp_path / "model", tmp_path / "out", "float32")
    assert (tmp_path / "out" / "tokenizer.json").is_file()
    assert ctranslate2.contains_model(str(tmp_path / "out"))


@pytest.mark.parametrize(
    "tree, why",
    [
        ({"encoder": "recurrent"}, "RecurrentEncoder"),
        ({"encoder": "universal", "decoder": "universal", "stem": {"position": "none"}}, "UniversalEncoder"),
        ({"decoder": "attentional"}, "AttentionalDecoder"),
        ({"activation": "elu"}, "no ELU"),
        ({"kind": "language_model"}, "LanguageModel"),
    ],
)
def test_what_it_cannot_run_is_refused_in_one_line(tree, why, tmp_path):
    model = build_model({**SHAPE, **tree}, VOCABULARY)
    with pytest.raises(UserError, match=why) as refused:
        interchange.write(model, PIECES, tmp_path / "out")
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_models_of_other_tasks_are_refused(tmp_path):
    tokenizer = Word.train(LINES, seed=1)
    shape = resolve_model({**SHAPE, "kind": "language_model"})
    weights = dict(build_model(shape, len(tokenizer)).named_parameters())
    recipe = Recipe(task="generate", model=shape, tokenizer={"kind": "word"})
    write_folder(tmp_path / "model", model_files(recipe, tokenizer, weights, "float32"))
    with pytest.raises(UserError, match="made to generate"):
        interchange.export(tmp_path / "model", tmp_path / "out")


def test_mistakes_are_said_and_leave_nothing(tmp_path, monkeypatch):
    model = random_model()
    with pytest.raises(UserError, match="int4.*float32, bfloat16"):
        interchange.write(model, PIECES, tmp_path / "out", "int4")
    with pytest.raises(UserError, match="spelled alike"):
        interchange.write(model, ["x"] * VOCABULARY, tmp_path / "out")
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot write"):
        interchange.write(model, PIECES, tmp_path / "file" / "out")
    with pytest.raises(KeyboardInterrupt):  # as if somebody pressed Ctrl-C when most was written
        interchange.write(model, PIECES, tmp_path / "out", files=Interrupted())
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(UserError, match="pip install ctranslate2"):
        interchange.write(model, PIECES, tmp_path / "out")


class Interrupted(dict):
    def __bool__(self) -> bool:
        return True

    def items(self):
        raise KeyboardInterrupt


@pytest.mark.slow
def test_the_shipped_model_says_the_same_to_a_thousand_sentences(tmp_path):
    who = ["Je", "Il", "Elle", "On", "Paul", "Mon voisin", "Cette femme", "Le directeur", "Ma sœur", "Ce garçon"]
    does = ["voit", "cherche", "vend", "a perdu", "achète", "montre", "aime", "a oublié", "peut porter", "veut garder"]
    what = ["la maison", "un livre", "les clés", "son vélo", "trois pommes", "la lettre de ta mère", "une vieille voiture",
            "le chien du boulanger", "des photos de la mer", "tout ce qui reste"]  # fmt: skip
    lines = [" ".join(words) + "." for words in product(who, does, what)]
    interchange.export("fr-en", tmp_path / "out", "float32")
    theirs = ctranslate2.Translator(str(tmp_path / "out"), intra_threads=1)
    ours = regard.load("fr-en", device="cpu")
    sources = [ours.encode(line) for line in lines]
    pieces = [ours.tokenizer.pieces(ids) for ids in sources]
    for beam, least in ((1, 1000), (4, 970)):  # its beam has rules of its own: docs/translating.md
        options = {"beam_size": beam, "max_batch_size": 50, "length_penalty": 0.6}
        written = [found.hypotheses[0] for found in theirs.translate_batch(pieces, **options)]
        found = ours.search(sources, beam=beam, length_penalty=0.6)
        assert sum(ours.tokenizer.pieces(h[0].ids) == other for h, other in zip(found, written)) >= least
