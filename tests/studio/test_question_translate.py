"""The question `translate`: what the studio's Translate tab shows is what the model computed (R20)."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from regard.assemble import build_model, resolve_model
from regard.config import Decoding, Recipe
from regard.data.batching import pad
from regard.data.tokenizer.word import Word
from regard.errors import UserError
from regard.layers.capture import capture
from regard.studio.questions import _trace_cache, translate
from regard.task.translate import Translator
from regard.types import BEGIN, END

TEXT = "elle a lu ce livre, deux fois."
LINES = [TEXT, "je ne suis pas étudiant.", "où est la gare ?", "oui, bien sûr !"]


@pytest.fixture(scope="module")
def translator() -> Translator:
    """The first of some random models whose two best translations of TEXT have several words."""
    tokenizer = Word.train(LINES, seed=1)
    tree = resolve_model({"width": 16, "heads": 4, "feed_forward": 32, "layers": 2})
    recipe = Recipe(model=tree, decoding=Decoding(beam=4, max_length=9))
    for seed in range(100):
        torch.manual_seed(seed)
        model = build_model(tree, len(tokenizer))
        with torch.no_grad():
            for weight in model.parameters():
                weight.mul_(1.5)
        made = Translator(recipe, tokenizer, model, torch.device("cpu"))
        found = made.translate(TEXT, n_best=2)
        if min(len(one.text.split()) for one in (found, *found.alternatives)) > 2 and found.finished:
            return made
    raise AssertionError("none of them says anything")


@pytest.fixture(autouse=True)
def empty_cache() -> None:
    _trace_cache._traces.clear()


def passed(translator: Translator, of: int) -> tuple[np.ndarray, list[float], list[str]]:
    """Weights by layer and head, and probabilities, of a translation that `translate` ranks at this place: it is fed
    one token at a time, beside another sentence."""
    found = translator.translate(TEXT, n_best=4)
    tokens = [found, *found.alternatives][of].tokens
    pieces = translator.tokenizer.pieces(list(range(len(translator.tokenizer))))
    written = [*(pieces.index(token) for token in tokens), END]
    source = [*translator.encode(TEXT), END]
    ids, mask = pad([source, source + source])
    model, sure = translator.model, []
    with torch.inference_mode(), capture(model) as seen:
        state = model.decoder.start(model.encode(ids, mask), beams=1, capacity=len(written))
        for token, following in zip([BEGIN, *written[:-1]], written, strict=True):
            logits, state = model.decoder.step(torch.tensor([[token], [token]]), state)
            sure.append(float(logits[0, -1].softmax(-1)[following]))
    layers = [torch.cat(seen[f"decoder.layers.{number}.cross_attention.weights"], -2)[0] for number in (0, 1)]
    return torch.stack(layers)[..., : len(source)].numpy(), sure, tokens


@pytest.mark.parametrize("of", [0, 1, 3])
def test_R20_it_tells_of_the_translation_that_was_chosen(translator: Translator, of: int) -> None:
    weights, sure, tokens = passed(translator, of)
    told = translate.answer(translator, {"text": TEXT, "n_best": 4, "of": of})
    assert told["target"]["tokens"] == [*tokens, "</s>"] and told["of"] == of
    np.testing.assert_allclose(told["weights"]["tokens"], weights.mean((0, 1)), atol=1e-5)
    np.testing.assert_allclose(told["probabilities"]["tokens"], sure, atol=1e-5)
    one = translate.answer(translator, {"text": TEXT, "n_best": 4, "of": of, "layer": 1, "head": 2})
    np.testing.assert_allclose(one["weights"]["tokens"], weights[1, 2], atol=1e-5)
    layer = translate.answer(translator, {"text": TEXT, "n_best": 4, "of": of, "layer": 0})
    np.testing.assert_allclose(layer["weights"]["tokens"], weights[0].mean(0), atol=1e-5)
    assert sum(map(math.log, sure)) == pytest.approx(told["log_probability"], abs=1e-3)
    chosen = told["candidates"][of]
    assert (chosen["text"], chosen["score"]) == (told["target"]["text"], told["score"])
    assert chosen["log_probability"] == told["log_probability"]


def test_what_is_found_is_what_translating_finds(translator: Translator) -> None:
    told = translate.answer(translator, {"text": TEXT, "n_best": 4})
    found = translator.translate(TEXT, n_best=4)
    assert [one["text"] for one in told["candidates"]] == [one.text for one in (found, *found.alternatives)]
    alone = translate.answer(translator, {"text": TEXT})
    assert alone["target"] == told["target"] and len(alone["candidates"]) == 1  # asking for more changes nothing


def test_words_are_made_of_their_tokens(translator: Translator) -> None:
    told = translate.answer(translator, {"text": TEXT})
    assert told["source"]["words"] == TEXT.split()
    tokens, words = np.array(told["weights"]["tokens"]), np.array(told["weights"]["words"])
    for s in range(len(told["source"]["words"])):
        columns = [at for at, word in enumerate(told["source"]["word_of"]) if word == s]
        for t in range(len(told["target"]["words"])):
            rows = [at for at, word in enumerate(told["target"]["word_of"]) if word == t]
            assert words[t, s] == pytest.approx(tokens[np.ix_(rows, columns)].sum(1).mean(), abs=1e-6)
            sure = np.prod([told["probabilities"]["tokens"][at] for at in rows])
            assert told["probabilities"]["words"][t] == pytest.approx(sure, rel=1e-6)


def test_another_head_costs_no_search(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []
    real = translator.search
    monkeypatch.setattr(translator, "search", lambda *given, **more: searched.append(more) or real(*given, **more))
    first = translate.answer(translator, {"text": TEXT, "n_best": 4})
    again = translate.answer(translator, {"text": TEXT, "n_best": 4, "layer": 0, "head": 1})
    assert len(searched) == 1 and again["seconds"] == first["seconds"] > 0
    translate.answer(translator, {"text": TEXT, "n_best": 4, "beam": 2})
    translate.answer(translator, {"text": TEXT, "n_best": 4, "length_penalty": 0.0})
    assert [one["beam"] for one in searched] == [4, 2, 4] and searched[-1]["length_penalty"] == 0.0


def test_several_parts_are_told_and_one_is_looked_at(translator: Translator) -> None:
    text = "Oui. Où est la gare ? Elle a lu ce livre."
    for part, seen in ((0, "Oui."), (2, "Elle a lu ce livre."), (99, "Elle a lu ce livre.")):
        told = translate.answer(translator, {"text": text, "part": part})
        assert told["parts"] == ["Oui.", "Où est la gare ?", "Elle a lu ce livre."]
        assert told["source"]["text"] == seen == told["parts"][told["part"]]


def test_what_a_model_does_not_have_is_not_made_up(translator: Translator) -> None:
    told = translate.answer(translator, {"text": TEXT, "layer": 7, "head": 1})
    assert told["attention"] == {"layers": 2, "heads": 4, "layer": None, "head": 1}
    tree = resolve_model({"width": 16, "encoder": {"kind": "recurrent"}, "decoder": {"kind": "recurrent"}})
    plain = Translator(
        Recipe(model=tree), translator.tokenizer, build_model(tree, len(translator.tokenizer)), torch.device("cpu")
    )
    told = translate.answer(plain, {"text": TEXT, "layer": 0})
    assert told["attention"] is None and told["weights"] is None and told["source"]["words"] == TEXT.split()


def test_what_cannot_be_answered_is_refused_before_any_search(translator: Translator, monkeypatch) -> None:
    monkeypatch.setattr(translator, "search", lambda *given, **more: pytest.fail("searched"))
    with pytest.raises(UserError, match="type a sentence"):
        translate.answer(translator, {"text": " \n"})
    monkeypatch.setattr(translator.recipe.data, "max_length", 1000)
    with pytest.raises(UserError, match=r"^this text has 200 tokens; the studio shows at most 128"):
        translate.answer(translator, {"text": "oui " * 200})
    for wrong in (
        {"beam": 0},
        {"beam": 1.5},
        {"of": -1},
        {"n_best": 10**9},
        {"length_penalty": 11.0},
        {"x": 1},
        {"part": -1},
    ):
        with pytest.raises(ValidationError):
            translate.Request(**{"text": "oui", **wrong})
    with pytest.raises(ValidationError):
        translate.Request(text="a" * 10_001)


def test_a_translation_that_was_not_found_is_one_line(translator: Translator, monkeypatch) -> None:
    real = translator.search
    monkeypatch.setattr(translator, "search", lambda *given, **more: [found[:1] for found in real(*given, **more)])
    with pytest.raises(UserError, match=r"^translation 7: the search found 1, counted from 0$"):
        translate.answer(translator, {"text": TEXT, "of": 7})
