"""The coverage penalty: against brute force over all outputs, with the attention of a forced pass."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

import regard
from regard.errors import UserError
from regard.hypothesis import penalty
from regard.task._coverage import coverage_penalty
from regard.task._search_variant import SearchVariant
from regard.task.translate import Translator
from regard.types import END

from .translators import ATTENDING, FAMILIES, TEXTS, translator_of

BETA, ALPHA = 0.7, 0.9
each_attending = pytest.mark.parametrize("tree", ATTENDING.values(), ids=ATTENDING)


def test_the_formula_by_hand() -> None:
    coverage = torch.tensor([[0.5, 2.0, 0.1], [1.0, 0.25, 0.0]])
    mask = torch.tensor([[True, True, False], [True, True, True]])
    expected = [math.log(0.5), math.log(0.25) + math.log(1e-6)]
    assert coverage_penalty(coverage, mask).tolist() == pytest.approx(expected)


def spelled_out(translator: Translator, source: list[int], targets: list[list[int]]) -> list[float]:
    """The score of each target, from its log-probability and its attention read at once."""
    log_probs = translator.token_log_probs([source] * len(targets), [[*ids, END] for ids in targets])
    scores = []
    for ids, of_tokens, weights in zip(targets, log_probs, translator.attention([(source, ids) for ids in targets])):
        coverage = [min(float(column), 1.0) for column in weights.sum(0)]
        scores.append(sum(of_tokens) / penalty(len(ids) + 1, ALPHA) + BETA * sum(map(math.log, coverage)))
    return scores


@each_attending
def test_the_widest_beam_finds_what_brute_force_finds(tree: dict) -> None:
    translator = translator_of(tree)
    source = translator.encode("abc d")
    letters = [token for token in range(len(translator.tokenizer)) if token > END][:5]
    targets = [list(body) for size in range(4) for body in itertools.product(letters, repeat=size)]
    with torch.no_grad():  # only these letters can be written
        others = [token for token in range(len(translator.tokenizer)) if token > END and token not in letters]
        bias = torch.zeros(len(translator.tokenizer))
        bias[others] = -1e9
        translator.model.decoder.output_bias = torch.nn.Parameter(bias)
    scores = spelled_out(translator, source, targets)
    best = max(range(len(targets)), key=lambda at: scores[at])
    ((found,),) = translator.search(
        [source], beam=200, length_penalty=ALPHA, max_length=4, variant=SearchVariant(coverage_penalty=BETA)
    )
    assert found.ids == targets[best]
    assert found.score == pytest.approx(scores[best], abs=1e-4)
    free = translator.token_log_probs([source], [[*found.ids, END]])[0]
    assert found.log_probability == pytest.approx(sum(free), abs=1e-4), "the penalty is in the score alone"


@each_attending
def test_a_penalty_of_0_is_plain_beam_search_and_a_batch_its_sentences(tree: dict) -> None:
    translator = translator_of(tree)
    options = {"beam": 3, "n_best": 2, "max_length": 9}
    assert translator.translate(TEXTS, coverage_penalty=0.0, **options) == translator.translate(TEXTS, **options)
    together = translator.translate(TEXTS, coverage_penalty=0.4, beam_groups=3, **options)
    for text, found in zip(TEXTS, together):
        alone = translator.translate(text, coverage_penalty=0.4, beam_groups=3, **options)
        assert (alone.text, alone.score) == (found.text, pytest.approx(found.score, abs=1e-4))


def test_the_recipe_may_ask_for_it() -> None:
    translator = translator_of(FAMILIES["transformer"])
    asked = translator.translate(TEXTS, coverage_penalty=2.0, max_length=9)
    plain = translator.translate(TEXTS, max_length=9)
    translator.recipe.decoding.coverage_penalty = 2.0
    assert translator.translate(TEXTS, max_length=9) == asked != plain
    together = regard.ensemble(translator, translator)
    assert [one.score for one in together.translate(TEXTS, max_length=9)] == pytest.approx(
        [one.score for one in asked], abs=1e-5
    )


def test_mistakes_are_one_line() -> None:
    with pytest.raises(UserError, match="no attention to its source"):
        translator_of(FAMILIES["seq2seq"]).translate("abc", coverage_penalty=0.2)
    translator = translator_of(FAMILIES["transformer"])
    for wrong, told in (
        ({"coverage_penalty": -1.0}, "must lie between 0 and 10"),
        ({"beam_groups": 3}, "beam 4 cannot be divided into 3 groups"),
        ({"temperature": 1.0, "beam": 3}, "beam is of beam search"),
        ({"temperature": 1.0, "coverage_penalty": 0.1}, "coverage_penalty is of beam search"),
        ({"seed": 1}, "seed is for sampling"),
        ({"top_p": 0.0}, "top_p 0.0 is out of range"),
    ):
        with pytest.raises(UserError, match=told):
            translator.translate("abc", **wrong)
