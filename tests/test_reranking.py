"""Reranking: against the formula spelled out with the log-probabilities of the further models."""

from __future__ import annotations

import pytest
import torch

from regard.assemble import build_model, resolve_model
from regard.config import Recipe
from regard.data.tokenizer.character import Character
from regard.errors import UserError
from regard.reranking import Reranker
from regard.task.generate import Generator
from tests.task.translators import FAMILIES, TEXTS, translator_of


@pytest.fixture(scope="module")
def lm() -> Generator:
    torch.manual_seed(2)
    shape = {"kind": "language_model", "decoder": {"kind": "recurrent", "width": 16, "layers": 1}}
    tree = resolve_model(shape)
    tokenizer = Character.train(["abcdef ghi"], seed=1)
    model = build_model(tree, len(tokenizer))
    return Generator(Recipe(task="generate", model=tree), tokenizer, model, torch.device("cpu"))


def test_each_model_counts_with_its_weight(lm: Generator) -> None:
    translator, reverse = translator_of(FAMILIES["transformer"]), translator_of(FAMILIES["luong"], seed=7)
    listed = translator.translate(TEXTS, beam=4, n_best=4, max_length=9)
    reranker = Reranker(reverse, lm, reverse_weight=0.7, lm_weight=0.3, candidates=4)
    found = translator.translate(TEXTS, beam=1, n_best=4, max_length=9, rerank=reranker)
    changed = 0
    for one, some in zip(found, listed, strict=True):
        expected = []
        for other in (some, *some.alternatives):
            back, read = reverse.score(other.text, some.source), lm.score(other.text)
            gain = 0.7 * back.log_probability / (len(some.source) + 1)  # END included
            gain += 0.3 * read.log_probability / max(1, len(lm.encode(other.text)))
            expected.append((other.score + gain, other.text))
        expected.sort(key=lambda one: -one[0])
        assert [each.text for each in (one, *one.alternatives)] == [text for _, text in expected]
        scores = [each.score for each in (one, *one.alternatives)]
        assert scores == pytest.approx([score for score, _ in expected], abs=1e-4)
        changed += [text for _, text in expected] != [some.text, *(other.text for other in some.alternatives)]
    assert changed


def test_mistakes_are_one_line(lm: Generator) -> None:
    translator = translator_of(FAMILIES["luong"])
    with pytest.raises(UserError, match="a reverse model, a language model or both"):
        Reranker()
    with pytest.raises(UserError, match="lm must be a language model; this model is made to translate"):
        Reranker(lm=translator)
    with pytest.raises(UserError, match="reverse must be a translator; this model is made to generate"):
        Reranker(reverse=lm)
    with pytest.raises(UserError, match="weights of a reranking"):
        Reranker(translator, reverse_weight=-1)
