"""R20: what is seen is what the model did, at the hypothesis that was chosen, and belongs to the tokens it stands at."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

import regard
from regard.assemble import build_model, resolve_model
from regard.config import Decoding, Recipe
from regard.data.batching import pad
from regard.data.tokenizer.character import Character
from regard.data.tokenizer.word import Word
from regard.errors import UserError
from regard.inspection.trace.base import CROSS, SOURCE, TARGET
from regard.inspection.trace.translation import TranslationTrace
from regard.layers.capture import capture
from regard.task.translate import Translation, Translator
from regard.types import BEGIN, END

LINES = ["je suis étudiant .", "où est la gare ?", "elle a lu ce livre deux fois .", "oui , bien sûr !"]
SIZES = {"width": 16, "heads": 4, "feed_forward": 32, "layers": 2}
RECURRENT = {"kind": "recurrent", "direction": "both", "layers": 2}
SHAPES: dict[str, dict] = {
    "transformer": SIZES,
    "universal": {**SIZES, "layers": 3, "encoder": "universal", "decoder": "universal"},
    "ssru": {**SIZES, "decoder": "ssru"},
    "bahdanau": {"width": 16, "encoder": RECURRENT, "decoder": {"kind": "attentional", "layers": 1}},
    "luong": {
        "width": 16,
        "encoder": RECURRENT,
        "decoder": {"kind": "attentional", "order": "after", "attention": "multiplicative", "cell": "lstm"},
    },
    "none": {"width": 16, "encoder": {"kind": "recurrent"}, "decoder": {"kind": "recurrent"}},
}
ATTENDS = [name for name in SHAPES if name != "none"]
TRANSFORMERS = ("transformer", "universal", "ssru")


def made(shape: str, tokenizer=None, seed: int = 3) -> Translator:
    """Random weights, larger than usual: fresh ones would answer every sentence alike."""
    torch.manual_seed(seed)
    tree = resolve_model(SHAPES[shape])
    tokenizer = tokenizer or Word.train(LINES, seed=1)
    model = build_model(tree, len(tokenizer))
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1.5)
        if shape not in TRANSFORMERS:  # what they say is small, and all words would be alike to them
            model.decoder.embedding.table.weight.mul_(8)
    recipe = Recipe(model=tree, decoding=Decoding(beam=4, max_length=12))
    return Translator(recipe, tokenizer, model, torch.device("cpu"))


@pytest.fixture(scope="module", params=list(SHAPES))
def looked(request) -> tuple[Translator, TranslationTrace]:
    """The first of some random models that has more to say than a word."""
    for seed in range(20):
        translator = made(request.param, seed=seed)
        look = translator.inspect(LINES[2], name=request.param)
        if len(look.target.tokens) > 3:
            return translator, look
    raise AssertionError("none of them says anything")


def ids_of(translator: Translator, look: TranslationTrace) -> list[int]:
    """The ids of the translation, found by its tokens."""
    pieces = translator.tokenizer.pieces(list(range(len(translator.tokenizer))))
    return [pieces.index(token) for token in look.target.tokens if token != pieces[END]]


def test_axes_fit_and_rows_sum_to_one(looked) -> None:
    translator, look = looked
    for layer in look.attention:
        heads = 4 if look.model in TRANSFORMERS else 1
        assert layer.weights.shape == (heads, len(look.queries(layer.kind)), len(look.keys(layer.kind)))
        np.testing.assert_allclose(layer.weights.sum(-1), 1, atol=1e-5)
        assert (layer.weights >= 0).all()
    assert look.source.tokens[-1] == "</s>" and (look.target.tokens[-1] == "</s>") == look.finished
    assert look.read == ["<s>", *look.target.tokens[:-1]]
    assert len(look.probabilities) == len(look.target.tokens)
    assert look.source.words == LINES[2].split() and look.target.words == look.target.text.split()


def test_nobody_looks_ahead(looked) -> None:
    _, look = looked
    for layer in look.of_kind(TARGET):
        assert (np.triu(layer.weights, k=1) == 0).all()


def test_what_it_has_is_what_its_kind_has(looked) -> None:
    translator, look = looked
    assert bool(look.of_kind(CROSS)) == (look.model in ATTENDS)
    assert bool(look.gates) == (look.model not in ("transformer", "universal"))
    assert bool(look.ponder) == (look.model == "universal")
    assert bool(look.positions) == (look.model in TRANSFORMERS)
    if look.model == "universal":
        assert sorted(layer.layer for layer in look.of_kind(CROSS)) == [0, 1, 2]
        for one in look.ponder:
            np.testing.assert_allclose(one.shares.sum(-1), 1, atol=1e-5)
            assert len(one.times) == len(look.source.tokens if one.side == SOURCE else look.read)
    for one in look.gates:
        assert {len(values) for values in one.values.values()} == {
            len(look.source.tokens if one.side == SOURCE else look.read)
        }


def test_it_is_the_translation_that_was_chosen(looked) -> None:
    translator, look = looked
    translation = translator.translate(LINES[2])
    assert (look.target.text, look.score, look.finished) == (translation.text, translation.score, translation.finished)
    assert look.target.tokens[: len(translation.tokens)] == translation.tokens
    assert sum(map(np.log, look.probabilities)) == pytest.approx(look.log_probability, abs=1e-3)


def test_seen_equals_an_independent_pass_step_by_step(looked) -> None:
    """The chosen hypothesis fed one token at a time, the way a search does, beside a longer sentence in one batch."""
    translator, look = looked
    source = [*translator.encode(LINES[2]), END]
    ids, mask = pad([source, source + source])
    fed = [BEGIN, *ids_of(translator, look)][: len(look.target.tokens)]
    model = translator.model
    with torch.inference_mode(), capture(model) as seen:
        state = model.decoder.start(model.encode(ids, mask), beams=1, capacity=len(fed))
        for token in fed:
            _, state = model.decoder.step(torch.tensor([[token], [token]]), state)
    for kind in (CROSS, SOURCE):
        for path in {layer.path for layer in look.of_kind(kind)}:
            own = np.concatenate([layer.weights for layer in look.of_kind(kind) if layer.path == path])
            calls = seen[f"{path}.weights"]
            other = torch.cat(calls, -2)[0].numpy()
            rows, columns = own.shape[1:]
            np.testing.assert_allclose(other[: len(own), :rows, :columns], own, atol=1e-5)
            assert (other[:, :rows, columns:] == 0).all()  # padding is not looked at, not even a little
    for layer in look.of_kind(TARGET):
        heads = len(layer.weights)
        for t, call in enumerate(seen[f"{layer.path}.weights"]):
            at = layer.layer * heads if look.model == "universal" else 0
            np.testing.assert_allclose(call[0, at : at + heads, 0, : t + 1], layer.weights[:, t, : t + 1], atol=1e-5)
    for one in look.gates:
        for name, values in one.values.items():
            other = torch.cat(seen[f"{one.path}.{name}"], -2)[0, : len(values)].numpy()
            np.testing.assert_allclose(other, values, atol=1e-5)


def test_the_search_that_is_told_is_the_search(looked) -> None:
    """Every open way has the log-probability that the model gives it, and those kept are the best there were."""
    translator, look = looked
    tokenizer, model = translator.tokenizer, translator.model
    pieces = tokenizer.pieces(list(range(len(tokenizer))))
    ids, mask = pad([[*translator.encode(LINES[2]), END]])

    def next_ones(way: list[int]) -> torch.Tensor:
        with torch.inference_mode():
            return model(ids, mask, torch.tensor([[BEGIN, *way]]))[0, -1].log_softmax(-1)

    before: list[tuple[list[int], float]] = [([], 0.0)]
    for number, step in enumerate(look.search):
        after = []
        totals = [total + next_ones(way) for way, total in before]
        for branch in step.open:
            way = before[branch.parent][0]
            token = pieces.index(branch.token)
            assert branch.log_probability == pytest.approx(float(totals[branch.parent][token]), abs=1e-3)
            after.append(([*way, token], branch.log_probability))
            assert branch.score is None
        for branch in step.ended:
            assert branch.token == pieces[END] and branch.score is not None
            assert branch.log_probability == pytest.approx(float(totals[branch.parent][END]), abs=1e-3)
        allowed = torch.cat([torch.cat([total[END + 1 :]]) for total in totals]).sort(descending=True).values
        if number < 2:  # later a rule may forbid a loop
            expected = allowed[: len(step.open)].tolist()
            assert [branch.log_probability for branch in step.open] == pytest.approx(expected, abs=1e-3)
            assert len(step.open) == min(look.beam, len(allowed))
        assert len(after) == len({tuple(way) for way, _ in after})
        before = after
    ways = [branch.token for step in look.search for branch in step.open if branch.chosen]
    assert (
        ways[: len(look.target.tokens) - look.finished] == look.target.tokens[: len(look.target.tokens) - look.finished]
    )
    ends = [branch for step in look.search for branch in step.ended if branch.chosen]
    assert [branch.score for branch in ends] == pytest.approx([look.score] * look.finished)


def test_greedy_is_a_tree_of_one_way() -> None:
    look = made("transformer").inspect(LINES[0], beam=1)
    assert all(len(step.open) <= 1 and all(branch.chosen for branch in step.open) for step in look.search)
    tokens = [branch.token for step in look.search for branch in step.open + step.ended]
    assert tokens == look.target.tokens


@pytest.mark.parametrize("text", ["un chien noir", "کتاب خوب است"])
def test_words_are_as_typed_and_merged_from_tokens(text: str) -> None:
    translator = made("transformer", Character.train([text], seed=1))
    look = translator.inspect(f"  {text}\u00a0!")
    assert look.source.words == [*text.split(), "!"] and len(look.source.tokens) > len(look.source.words)
    assert look.source.direction == ("rtl" if text[0] == "ک" else "ltr")
    words, tokens = look.word_matrix(), look.token_matrix()
    assert words.shape == (len(look.target.words), len(look.source.words))
    for s in range(len(look.source.words)):
        columns = [c for c, word in enumerate(look.source.word_of) if word == s]
        for t in range(len(look.target.words)):
            rows = [r for r, word in enumerate(look.target.word_of) if word == t]
            assert words[t, s] == pytest.approx(tokens[np.ix_(rows, columns)].sum(1).mean(), abs=1e-6)


def test_a_typographic_apostrophe_stays_as_it_was_typed() -> None:
    translator = made("transformer", Character.train(["l'élève est là"], seed=1))
    translator.recipe.data.plain_source = True
    assert translator.inspect("l\u2019élève est là").source.words[0] == "l\u2019élève"


def test_exported_values_are_the_values(looked) -> None:
    _, look = looked
    tree = json.loads(look.json())
    for layer, other in zip(look.attention, tree["attention"], strict=True):
        np.testing.assert_array_equal(np.array(other["weights"], np.float32), layer.weights)
    for one, other in zip(look.gates, tree["gates"], strict=True):
        for name, values in one.values.items():
            np.testing.assert_array_equal(np.array(other["values"][name], np.float32), values)
    for one, other in zip(look.positions, tree["positions"], strict=True):
        np.testing.assert_array_equal(np.array(other["values"], np.float32), one.values)
    if look.of_kind(CROSS):
        np.testing.assert_array_equal(np.array(tree["word_matrix"], np.float32), look.word_matrix())
    assert tree["target"]["text"] == look.target.text and tree["source"]["direction"] == "ltr"


def test_every_view_that_a_model_has_can_be_drawn(looked) -> None:
    _, look = looked
    has = {
        "alignment": look.of_kind(CROSS),
        "heads": look.attention,
        "positions": look.positions,
        "beam": look.search,
        "gates": look.gates,
        "ponder": look.ponder,
    }
    for name, there in has.items():
        if there:
            ElementTree.fromstring(look.svg(name))
            assert look.html(name).endswith("</html>\n") and look.figure(name).axes
        else:
            with pytest.raises(UserError, match="this model"):
                look.svg(name)
    assert look._repr_html_().startswith("<iframe ")


def test_looking_changes_nothing_and_leaves_nothing() -> None:
    translator = made("bahdanau")
    before = [t.score for t in translator.translate(LINES)]
    translator.inspect(LINES[1])
    assert [t.score for t in translator.translate(LINES)] == before
    assert all(getattr(module, "observer", None) is None for module in translator.model.modules())


def test_what_cannot_be_looked_at_is_refused() -> None:
    translator = made("transformer")
    for text, said in (("  ", "nothing to inspect"), ("Un. Deux ! Trois ? Quatre.", "one at a time")):
        with pytest.raises(UserError, match=said):
            regard.inspect(translator, text)
    with pytest.raises(UserError, match="beam"):
        regard.inspect(translator, "oui", beam=0)


def test_a_translation_draws_itself_in_a_notebook() -> None:
    translator = made("transformer", Character.train(["<b> & co"], seed=1))
    plain, aligned = (translator.translate("<b> & co", alignment=wanted) for wanted in (False, True))
    assert plain._repr_html_().startswith('<p dir="auto">') and "<b>" not in plain._repr_html_()
    assert aligned._repr_html_().startswith("<svg ") and "<b>" not in aligned._repr_html_()
    assert Translation("", "<img src=x>")._repr_html_() == '<p dir="auto">&lt;img src=x&gt;</p>'
