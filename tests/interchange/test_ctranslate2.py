"""What `regard export --format ctranslate2` writes gives the same results in CTranslate2."""

from __future__ import annotations

import json
import struct
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

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
from regard.interchange.write import ctranslate2 as interchange
from regard.loading import export, load, model_files
from regard.storage import write_folder
from regard.types import BEGIN, END
from regard.weights import load_tensors

ctranslate2 = pytest.importorskip("ctranslate2")

VOCABULARY = 60
WORDS = Word([f"▁t{i}" for i in range(len(SPECIALS), VOCABULARY)])
PIECES = WORDS.pieces(range(VOCABULARY))
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


def written(model, tree: dict | None, place: Path, precision: str = "float32") -> Path:
    """The exported folder of a model."""
    recipe = Recipe(model=resolve_model({**SHAPE, **(tree or {})}), tokenizer={"kind": "word"})
    write_folder(place / "model", model_files(recipe, WORDS, dict(model.named_parameters()), "float32"))
    return interchange.export(place / "model", place / precision, precision)


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
    "sines in the first half": {"position": "sinusoidal_halves"},
    "M2M's positions": {"position": {"kind": "sinusoidal_halves", "offset": 2, "inclusive": True}, "norm": "pre"},
    "silu": {"activation": "silu"},
    "tanh": {"activation": "tanh"},
    "output bias": {"decoder": {"output_bias": True}},
    "both embeddings normed": {"embedding_norm": True},
    "rms norms": {"norm": "pre", "norm_kind": "rms", "norm_epsilon": 1e-3},
    "layer norms with another epsilon": {"norm_epsilon": 1e-2},
    "no biases": {"bias": False, "scale": False},
    "gated": {"gated": True, "activation": "gelu_tanh"},
    "narrow heads": {"head_width": 4},
    "relative positions": {
        "position": "none", "relative_position": {"kind": "buckets", "buckets": 8, "distance": 12}, "norm": "pre",
        "scale": False,
    },
    "T5": {
        "norm": "pre", "norm_kind": "rms", "norm_epsilon": 1e-6, "bias": False, "gated": True, "head_width": 16,
        "position": "none", "relative_position": "buckets", "activation": "gelu_tanh", "scale": False,
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_scores_and_greedy_texts_are_ours(kind, tmp_path):
    model = random_model(KINDS[kind])
    theirs = ctranslate2.Translator(str(written(model, KINDS[kind], tmp_path)), intra_threads=1)
    sources, targets = random_sentences(3, 9, 1), random_sentences(4, 2, 7)
    scored = theirs.score_batch(spelled(sources), spelled(targets))  # together: what is padded must not matter
    for source, target, found in zip(sources, targets, scored):
        assert found.log_probs == pytest.approx(our_scores(model, source, target), abs=1e-4)
    theirs_found = theirs.translate_batch(spelled(sources), beam_size=1, max_decoding_length=15)
    ours = [our_greedy(model, source, 15) for source in sources]
    assert [found.hypotheses[0] for found in theirs_found] == spelled(ours)
    assert KINDS[kind].get("scale") is False or len({tuple(ids) for ids in ours}) > 1  # else it were easy to agree


@pytest.mark.parametrize("precision, off", [("int8", 0.3), ("int16", 0.05), ("bfloat16", 0.3), ("float16", 0.05)])
def test_other_precisions_are_near(precision, off, tmp_path):
    model = random_model({"norm": "pre"})
    out = written(model, {"norm": "pre"}, tmp_path, precision)
    whole = interchange.export(tmp_path / "model", tmp_path / "whole", "float32")
    sizes = [(place / "model.bin").stat().st_size for place in (out, whole)]
    assert sizes[0] < 0.8 * sizes[1]
    (source,), (target,) = random_sentences(6), random_sentences(8)
    theirs = ctranslate2.Translator(str(out), intra_threads=1)
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
    ours = load(folder, device="cpu")
    assert pieces.decode(found.hypotheses[0]) == ours.tokenizer.decode(
        our_greedy(ours.model, ours.encode(LINES[1]), 10)
    )
    assert json.loads((out / "shared_vocabulary.json").read_text()) == ours.tokenizer.pieces(range(len(ours.tokenizer)))
    with pytest.raises(UserError, match="already exists"):
        command(str(folder), out, Program.ctranslate2)


def variables(path: Path) -> dict[str, tuple[tuple[int, ...], int, bytes]]:
    """Shape, type and bytes of every array of a model.bin."""
    data, at = path.read_bytes(), 0

    def number(kind: str) -> int:
        nonlocal at
        (value,) = struct.unpack_from(f"<{kind}", data, at)
        at += struct.calcsize(f"<{kind}")
        return value

    def text() -> str:
        nonlocal at
        length = number("H")
        at += length
        return data[at - length : at - 1].decode()

    assert number("I") == 6 and text() == "TransformerSpec" and number("I") == 7
    found = {}
    for _ in range(number("I")):
        name = text()
        shape = tuple(number("I") for _ in range(number("B")))
        kind, size = number("B"), number("I")
        found[name] = shape, kind, data[at : at + size]
        at += size
    for _ in range(number("I")):
        alias = text()
        found[alias] = found[text()]
    assert at == len(data)
    return found


@pytest.mark.parametrize("precision", ["float32", "int8", "int16", "float16", "bfloat16"])
@pytest.mark.parametrize(
    "kind", ["the paper's", "pre-norm", "normed embedding", "untied output", "tables of their own"]
)
def test_the_file_is_the_one_that_their_library_writes(kind, precision, tmp_path):
    """Built from the same weights through CTranslate2's own specification classes."""
    model = random_model(KINDS[kind])
    ours = variables(written(model, KINDS[kind], tmp_path, precision) / "model.bin")
    spec = their_specification(model)
    spec.validate()
    spec.optimize(quantization=precision)
    (tmp_path / "theirs").mkdir()
    spec.save(str(tmp_path / "theirs"))
    theirs = variables(tmp_path / "theirs" / "model.bin")
    scales = {name for name in ours if name.endswith("_scale")}
    assert ours.keys() - scales == theirs.keys() - {name for name in theirs if name.endswith("_scale")}
    assert not (theirs.keys() & scales) - ours.keys()
    for name in theirs:
        if "position_encodings" in name or name.endswith("_scale"):
            continue  # sines differ in the last bit
        assert ours[name] == theirs[name], name


def their_specification(model):
    from ctranslate2 import specs

    def values(tensor):
        return tensor.detach().numpy().copy()

    def fill(theirs, ours):
        if isinstance(ours, torch.nn.LayerNorm):
            theirs.gamma, theirs.beta = values(ours.weight), values(ours.bias)
        else:
            theirs.weight, theirs.bias = values(ours.weight), values(ours.bias)

    def shape(part):
        first = part.layers[0]
        return {
            "num_layers": len(part.layers),
            "num_heads": first.attention.heads,
            "pre_norm": first.around_attention.first,
        }

    stem, encoder, decoder = model.stem, model.encoder, model.decoder
    normed = isinstance(stem.embedding.norm, torch.nn.LayerNorm)
    reader = specs.TransformerEncoderSpec(**shape(encoder), layernorm_embedding=normed)
    heads = decoder.layers[0].attention.heads
    writer = specs.TransformerDecoderSpec(
        **shape(decoder), alignment_layer=len(decoder.layers) - 1, alignment_heads=heads
    )
    sides = ((reader, reader.embeddings[0], stem.embedding), (writer, writer.embeddings, decoder.embedding))
    for side, table, ours in sides:
        table.weight = values(ours.table.weight)
        side.position_encodings.encodings = values(ours.position(torch.arange(277)))
    if normed:
        fill(reader.layernorm_embedding, stem.embedding.norm)
    writer.projection.weight = values(decoder.output_weight())
    for side, part in ((reader, encoder), (writer, decoder)):
        for theirs, ours in zip(side.layer, part.layers):
            fill(theirs.self_attention.linear[0], ours.attention.inward)
            fill(theirs.self_attention.linear[1], ours.attention.outward)
            fill(theirs.self_attention.layer_norm, ours.around_attention.norm)
            fill(theirs.ffn.linear_0, ours.feed_forward.inward)
            fill(theirs.ffn.linear_1, ours.feed_forward.outward)
            fill(theirs.ffn.layer_norm, ours.around_feed_forward.norm)
            if side is writer:
                weight, bias = values(ours.cross_attention.inward.weight), values(ours.cross_attention.inward.bias)
                width = ours.cross_attention.width
                theirs.attention.linear[0].weight, theirs.attention.linear[0].bias = weight[:width], bias[:width]
                theirs.attention.linear[1].weight, theirs.attention.linear[1].bias = weight[width:], bias[width:]
                fill(theirs.attention.linear[2], ours.cross_attention.outward)
                fill(theirs.attention.layer_norm, ours.around_cross_attention.norm)
        if hasattr(side, "layer_norm"):
            fill(side.layer_norm, part.norm)
    spec = specs.TransformerSpec(reader, writer)
    spec.register_source_vocabulary(PIECES)
    spec.register_target_vocabulary(PIECES)
    return spec


def test_int8_of_int8_rounds_nothing_again(folder, tmp_path):
    """Both keep 127 steps on either side and one scale a row, so a model that ships in int8 loses nothing more."""
    export(folder, tmp_path / "small", "int8")
    stored = load_tensors(tmp_path / "small" / "weights.safetensors")
    found = variables(interchange.export(tmp_path / "small", tmp_path / "out", "int8") / "model.bin")
    for theirs, name in (
        ("encoder/layer_1/ffn/linear_0", "encoder.layers.1.feed_forward.inward.weight"),
        ("decoder/layer_0/self_attention/linear_0", "decoder.layers.0.attention.inward.weight"),
    ):
        assert found[f"{theirs}/weight"][2] == stored[name].numpy().tobytes()
        scale = np.frombuffer(found[f"{theirs}/weight_scale"][2], np.float32)
        np.testing.assert_allclose(1 / scale, stored[f"{name}.scale"].numpy(), rtol=1e-6)


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
        ({"encoder": "recurrent"}, "encoder is of the kind recurrent"),
        ({"encoder": "universal", "decoder": "universal", "stem": {"position": "none"}}, "of the kind universal"),
        ({"decoder": "attentional"}, "decoder is of the kind attentional"),
        ({"activation": "elu"}, "no activation elu"),
        ({"decoder": {"attention": "additive"}}, "only multi-head attention"),
        ({"relative_position": "buckets"}, "no other positions beside relative ones"),
        ({"norm_epsilon": 1e-3, "embedding_norm": True}, "one norm_epsilon"),
    ],
)
def test_what_it_cannot_run_is_refused_in_one_line(tree, why, tmp_path):
    with pytest.raises(UserError, match=why) as refused:
        written(build_model({**SHAPE, **tree}, VOCABULARY), tree, tmp_path)
    assert "\n" not in str(refused.value)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_models_of_other_tasks_are_refused(tmp_path):
    tokenizer = Word.train(LINES, seed=1)
    shape = resolve_model({**SHAPE, "kind": "language_model"})
    weights = dict(build_model(shape, len(tokenizer)).named_parameters())
    recipe = Recipe(task="generate", model=shape, tokenizer={"kind": "word"})
    write_folder(tmp_path / "model", model_files(recipe, tokenizer, weights, "float32"))
    with pytest.raises(UserError, match="made to generate"):
        interchange.export(tmp_path / "model", tmp_path / "out")


def test_mistakes_are_said_and_leave_nothing(folder, tmp_path, monkeypatch):
    with pytest.raises(UserError, match="int4.*float32, bfloat16"):
        interchange.export(folder, tmp_path / "out", "int4")
    monkeypatch.setattr(Subword, "pieces", lambda self, ids: ["x" for _ in ids])
    with pytest.raises(UserError, match="spelled alike"):
        interchange.export(folder, tmp_path / "out")
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot write"):
        interchange.export(folder, tmp_path / "file" / "out")
    monkeypatch.undo()
    monkeypatch.setattr(Subword, "files", interrupted)  # as if somebody pressed Ctrl-C when most was written
    with pytest.raises(KeyboardInterrupt):
        interchange.export(folder, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def interrupted(self):
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
    ours = load("fr-en", device="cpu")
    sources = [ours.encode(line) for line in lines]
    pieces = [ours.tokenizer.pieces(ids) for ids in sources]
    for beam, least in ((1, 1000), (4, 970)):  # its beam has rules of its own: docs/translating.md
        options = {"beam_size": beam, "max_batch_size": 50, "length_penalty": 0.6}
        written = [found.hypotheses[0] for found in theirs.translate_batch(pieces, **options)]
        found = ours.search(sources, beam=beam, length_penalty=0.6)
        assert sum(ours.tokenizer.pieces(h[0].ids) == other for h, other in zip(found, written)) >= least
