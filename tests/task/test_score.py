"""Forced decoding: against the steps spelled out, the search's own sums, and batched against alone."""

from __future__ import annotations

import pytest
import torch

import regard
from regard.errors import UserError
from regard.types import BEGIN, END

from .translators import FAMILIES, TEXTS, translator_of

each_family = pytest.mark.parametrize("tree", FAMILIES.values(), ids=FAMILIES)


@each_family
def test_it_is_the_sum_that_the_search_reports(tree: dict) -> None:
    translator = translator_of(tree)
    sources = [translator.encode(text) for text in TEXTS]
    found = translator.search(sources, beam=3, n_best=2, max_length=12)
    pairs = [(source, h) for source, hypotheses in zip(sources, found) for h in hypotheses]
    targets = [[*h.ids, END] if h.finished else h.ids for _, h in pairs]
    scored = translator.token_log_probs([source for source, _ in pairs], targets)
    assert len({len(target) for target in targets}) > 1
    for (_, hypothesis), of_tokens in zip(pairs, scored):
        assert sum(of_tokens) == pytest.approx(hypothesis.log_probability, abs=1e-4)


@each_family
@torch.no_grad()
def test_batched_equals_alone_and_one_step_at_a_time(tree: dict) -> None:
    translator = translator_of(tree)
    targets = ["hi", "gab cab", "", "fedfedfed"]
    together = translator.score(TEXTS, targets, batch_tokens=40)
    for source, target, found in zip(TEXTS, targets, together):
        alone = translator.score(source, target)
        assert found.log_probabilities == pytest.approx(alone.log_probabilities, abs=1e-5)
        ids = torch.tensor([translator.source_row(translator.encode(source))])
        memory = translator.model.encode(ids, torch.ones_like(ids, dtype=torch.bool))
        state, token, expected = translator.model.decoder.start(memory, 1, 20), BEGIN, []
        for following in [*translator.tokenizer.encode(target), END]:
            logits, state = translator.model.decoder.step(torch.tensor([[token]]), state)
            expected.append(float(logits[0, -1].log_softmax(-1)[following]))
            token = following
        assert alone.log_probabilities == pytest.approx(expected, abs=1e-5)
        assert alone.log_probability == pytest.approx(sum(expected), abs=1e-5)


def test_words_are_sums_of_their_tokens() -> None:
    translator = translator_of(FAMILIES["transformer"])
    found = translator.score("abc", "gab ca")
    ends = found.log_probabilities
    assert found.tokens[-1] == "</s>" and len(found.tokens) == 7
    assert [word for word, _ in found.words] == ["gab", "ca"]
    assert [value for _, value in found.words] == pytest.approx([sum(ends[:3]), sum(ends[3:6])], abs=1e-6)


def test_mistakes_are_one_line() -> None:
    translator = translator_of(FAMILIES["transformer"])
    with pytest.raises(UserError, match="2 sources but 1 translations"):
        translator.score(["a", "b"], ["c"])
    with pytest.raises(UserError, match="two texts, or two lists"):
        translator.score("a", ["c"])
    short = translator_of({"heads": 2, "position": {"kind": "learned", "length": 8}})
    with pytest.raises(UserError, match="text 2 has 13 tokens and the model's positions end at 8"):
        short.score(["a", "a"], ["b", "b" * 12])
    assert len(short.score("a", "b" * 7).tokens) == 8


def test_a_language_model_scores_what_it_writes() -> None:
    generator = regard.load("shakespeare")
    written = [generator.generate("", length=n, seed=n) for n in (20, 5)]
    together = generator.score([one.text for one in written])
    for one, found in zip(written, together):
        assert found.tokens == one.tokens
        assert found.log_probability == pytest.approx(one.log_probability, abs=1e-3)
        assert found.log_probabilities == pytest.approx(generator.score(one.text).log_probabilities, abs=1e-5)
    assert generator.score("").tokens == []
