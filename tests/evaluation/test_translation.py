"""Scores against hand-counted n-grams and against sacrebleu's own functions and its own paired test."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import sacrebleu
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from regard.errors import UserError
from regard.evaluation.translation import compare, corpus_scores


def corpus(lines: int, mistakes: float, seed: int) -> list[str]:
    """The same sentences for every call, with another share of wrong words for every seed."""
    words = ["the", "a", "cat", "dog", "house", "sees", "has", "near", "big", "small", "red", "man", "and", "of"]
    text, wrong = np.random.default_rng(0), np.random.default_rng(seed)
    sentences = [[str(text.choice(words)) for _ in range(text.integers(4, 12))] for _ in range(lines)]
    return [" ".join("wrong" if wrong.random() < mistakes else w for w in sentence) + "." for sentence in sentences]


REFERENCES = corpus(60, 0.0, 0)


def test_bleu_by_hand() -> None:
    # "a b c d e x" against "a b c d e f": 5/6 words, 4/5 pairs, 3/4 triples, 2/3 quadruples, equal lengths.
    expected = 100 * math.exp(sum(math.log(p) for p in (5 / 6, 4 / 5, 3 / 4, 2 / 3)) / 4)
    assert corpus_scores(["a b c d e x"], ["a b c d e f"]).bleu == pytest.approx(expected)


def test_brevity_by_hand() -> None:
    # Nothing wrong but two of six words missing: only the brevity penalty is left.
    assert corpus_scores(["a b c d"], ["a b c d e f"]).bleu == pytest.approx(100 * math.exp(1 - 6 / 4))


def test_equals_sacrebleu_and_is_signed() -> None:
    outputs = corpus(60, 0.2, 1)
    scores = corpus_scores(outputs, REFERENCES)
    assert scores.bleu == pytest.approx(sacrebleu.corpus_bleu(outputs, [REFERENCES]).score)
    assert scores.chrf == pytest.approx(sacrebleu.corpus_chrf(outputs, [REFERENCES]).score)
    assert 20 < scores.bleu < 90 and 50 < scores.chrf < 95
    assert scores.bleu_signature == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"
    assert "nc:6|nw:0" in scores.chrf_signature


def test_lowercase_and_tokenize() -> None:
    upper, lower = ["The Cat Sees A Dog."], ["the cat sees a dog."]
    assert corpus_scores(upper, lower).bleu < 50
    both = corpus_scores(upper, lower, lowercase=True)
    assert both.bleu == pytest.approx(100) and both.chrf == pytest.approx(100) and "case:lc" in both.bleu_signature
    # 13a parts the stop from the word, `none` does not: six tokens, five tokens.
    assert corpus_scores(["a b c d e ."], ["a b c d e."]).bleu == pytest.approx(100)
    kept = corpus_scores(["a b c d e ."], ["a b c d e."], tokenize="none")
    assert kept.bleu < 80 and "tok:none" in kept.bleu_signature


@pytest.mark.parametrize(
    ("outputs", "references", "message"),
    [(["a", "b"], ["a"], "2 outputs but 1 references"), ([], [], "no lines")],
)
def test_refuses(outputs: list[str], references: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        corpus_scores(outputs, references)
    with pytest.raises(UserError, match=message):
        compare(references, outputs, references)


def test_refuses_unknown_tokenizer_and_no_samples() -> None:
    with pytest.raises(UserError, match="did you mean 'intl'"):
        corpus_scores(["a"], ["a"], tokenize="int")
    with pytest.raises(UserError, match="at least 1 sample"):
        compare(["a"], ["a"], ["a"], samples=0)


@pytest.mark.parametrize(("mistakes", "significant"), [(0.21, False), (0.5, True)])
def test_paired_bootstrap_equals_sacrebleus(
    mistakes: float, significant: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = corpus(60, 0.2, 1), corpus(60, mistakes, 2)
    monkeypatch.setenv("SACREBLEU_SEED", "7")
    systems: list[Any] = [("first", first), ("second", second)]
    metrics = {"bleu": BLEU(), "chrf": CHRF()}
    theirs: Any
    signatures, theirs = PairedTest(systems, metrics, [REFERENCES], test_type="bs", n_samples=300)()
    ours = compare(first, second, REFERENCES, samples=300, seed=7)
    for name, their_name in (("bleu", "BLEU"), ("chrf", "chrF2")):
        baseline, result = theirs[their_name]
        assert ours[name].first == pytest.approx(baseline.score)
        assert ours[name].second == pytest.approx(result.score)
        assert ours[name].p_value == pytest.approx(result.p_value)
        low, high = ours[name].second_interval
        assert low < result.mean < high and (high - low) / 2 == pytest.approx(result.ci, rel=0.1)
        assert ours[name].significant is significant
        assert ours[name].signature == str(signatures[their_name])
    if significant:
        assert ours["bleu"].wins == 0  # the second makes far more mistakes


def test_wins_follow_the_better_system() -> None:
    bad, good = corpus(60, 0.5, 1), corpus(60, 0.1, 2)
    assert compare(bad, good, REFERENCES, samples=50)["chrf"].wins == 1
    assert compare(good, bad, REFERENCES, samples=50)["chrf"].wins == 0


def test_a_system_does_not_differ_from_itself() -> None:
    outputs = corpus(60, 0.2, 1)
    for result in compare(outputs, outputs, REFERENCES, samples=50).values():
        assert result.p_value == 1 and not result.significant and result.wins == 0.5


def test_same_seed_same_result() -> None:
    first, second = corpus(60, 0.2, 1), corpus(60, 0.22, 2)
    assert compare(first, second, REFERENCES, samples=50, seed=3) == compare(
        first, second, REFERENCES, samples=50, seed=3
    )
