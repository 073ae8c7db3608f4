"""Calibrations: fitting agrees with an independent optimiser, reliability with hand-counted numbers, and a file from
anyone is checked."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import numpy as np
import pytest

from regard.confidence.calibration import GENERIC, Calibration, Calibrations, Logistic
from regard.confidence.features import SENTENCE_FEATURES, WORD_FEATURES, logit, sentence_features, word_features
from regard.confidence.fitting import PENALTY, Examples, fitted, is_right
from regard.confidence.reliability import reliability
from regard.confidence.words import scored_words
from regard.errors import UserError
from regard.storage import CALIBRATION


def test_the_fit_is_where_the_penalised_likelihood_is_highest() -> None:
    draw = np.random.default_rng(1)
    x = draw.normal(size=(200, 3)) * [1, 10, 0.1] + [0, 5, 0]
    y = draw.random(200) < 1 / (1 + np.exp(-(x @ [1.0, -0.1, 4.0] + 0.3)))
    found = fitted(x.tolist(), y.tolist())

    def loss(weights: np.ndarray) -> float:
        """The penalised -log p of features of mean 0 and deviation 1, spelled out; it is convex."""
        logits = (x - x.mean(0)) / x.std(0) @ weights[:3] + weights[3]
        penalty = PENALTY / 2 * (weights[:3] ** 2).sum() + PENALTY / 200 * weights[3] ** 2
        return float(np.where(y, np.logaddexp(0, -logits), np.logaddexp(0, logits)).sum() + penalty)

    best = np.array([*(np.array(found.weights) * x.std(0)), found.bias + np.array(found.weights) @ x.mean(0)])
    steps = [sign * 1e-3 * one for one in np.eye(4) for sign in (-1, 1)]
    assert all(loss(best + step) > loss(best) for step in steps)
    assert found.weights == pytest.approx([1.0, -0.1, 4.0], abs=0.8)


def test_the_fit_is_finite_where_all_are_right() -> None:
    found = fitted([[1.0], [1.0], [1.0]], [True, True, True])
    assert 0.9 < found.probability([1.0]) < 1


def test_reliability_of_numbers_counted_by_hand() -> None:
    found = reliability([0.05, 0.15, 0.15, 0.95, 1.0], [False, True, False, True, True])
    assert [one.size for one in found.bins] == [1, 2, 2]
    assert found.error == pytest.approx((0.05 * 1 + abs(0.15 - 0.5) * 2 + (1 - 0.975) * 2) / 5)
    assert found.right == pytest.approx(0.6) and reliability([0.5], [True]).auc is None


def test_auc_is_the_share_of_pairs_in_order() -> None:
    draw = random.Random(1)
    scores, right = [draw.randint(0, 9) / 10 for _ in range(60)], [draw.random() < 0.5 for _ in range(60)]
    good, bad = ([s for s, r in zip(scores, right) if r is wanted] for wanted in (True, False))
    pairs = [(a > b) + (a == b) / 2 for a in good for b in bad]
    assert reliability(scores, right).auc == pytest.approx(sum(pairs) / len(pairs))


def test_features_of_a_sentence() -> None:
    log_probabilities = [math.log(p) for p in (0.9, 0.5, 0.25, 0.8)]
    words = scored_words("Oui foo", [" Oui", " f", "oo"], log_probabilities)
    first, second = word_features("Oui, oui.", "Oui foo", words, log_probabilities)
    mean = sum(log_probabilities) / 4
    assert first == pytest.approx([math.log(9), math.log(9), mean, math.log(1 / 3), 3, math.log(3), 1, 0, 1])
    assert second == pytest.approx(
        [math.log(1 / 3), math.log(1 / 7), mean, math.log(4), math.log(9), math.log(3), 2, 0.5, 0]
    )
    assert sentence_features(words, log_probabilities) == pytest.approx([mean, (math.log(9) + math.log(1 / 3)) / 2])
    assert len(first) == len(WORD_FEATURES) and logit(0.0) == pytest.approx(-logit(-1000.0))


def test_a_sentence_is_right_by_chrf() -> None:
    assert is_right("I am a student.", "I'm a student.") and not is_right("The end.", "I am a student.")


def test_what_is_sure_and_right_gets_a_higher_confidence() -> None:
    examples = Examples()
    for number in range(60):
        right = number % 3 > 0
        sure = -0.05 if right else -2.0
        reference = "ja nein" if right else "anders gesagt"
        examples.add("oui non", "ja nein", [" ja", " nein"], [sure, sure * 1.1, -0.01], reference)
    words, sentences = examples.confidences(examples.fit())
    assert min(words[2:4]) > 0.9 > 0.2 > max(words[:2]) and sentences[1] > 0.8 > 0.3 > sentences[0]
    with pytest.raises(UserError, match="needs 50 sentences"):
        Examples().fit()


def made(sentences: int = 7) -> Calibration:
    return Calibration(
        Logistic((0.5,) * len(WORD_FEATURES), -1.0), Logistic((0.25,) * len(SENTENCE_FEATURES), 2.0), sentences
    )


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    kept = Calibrations().with_one("fr", "en", made())
    (tmp_path / CALIBRATION).write_bytes(kept.to_json())
    found = Calibrations.read(tmp_path)
    assert found == kept and found.for_direction("fr", "en") == made()
    assert found.for_direction("de", "en") is GENERIC and GENERIC.generic and not made().generic
    assert Calibrations.read(tmp_path / "nowhere") == Calibrations.read(None) == Calibrations()


def hostile() -> list[bytes]:
    good = json.loads(Calibrations().with_one("fr", "en", made()).to_json())

    def changed(**more: object) -> bytes:
        one = {**good["directions"]["fr-en"], **more}
        return json.dumps({**good, "directions": {"fr-en": one}}).encode()

    return [
        b"",
        b"[" * 100_000,
        b"\xff",
        b"[]",
        json.dumps({**good, "format": 2}).encode(),
        json.dumps({**good, "features": {"word": ["sentence"], "sentence": []}}).encode(),
        json.dumps({**good, "directions": {str(n): good["directions"]["fr-en"] for n in range(2001)}}).encode(),
        changed(word={"weights": [1.0], "bias": 0.0}),
        changed(word={"weights": [math.nan] * len(WORD_FEATURES), "bias": 0.0}),
        changed(word={"weights": ["1"] * len(WORD_FEATURES), "bias": 0.0}),
        changed(sentence={"weights": [1e300] * len(SENTENCE_FEATURES), "bias": 0.0}),
        changed(sentences=True),
        b" " * (1 << 20) + b"{}",
    ]


@pytest.mark.parametrize("number", range(13))
def test_a_file_from_anyone_is_refused_in_one_line(number: int, tmp_path: Path) -> None:
    (tmp_path / CALIBRATION).write_bytes(hostile()[number])
    with pytest.raises(UserError) as refused:
        Calibrations.read(tmp_path)
    assert str(refused.value).startswith(str(tmp_path / CALIBRATION)) and "\n" not in str(refused.value)
