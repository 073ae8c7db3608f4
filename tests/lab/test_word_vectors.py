"""Scores of word vectors against an independent computation; shuffled text flips the verdict."""

from __future__ import annotations

import numpy as np
import pytest

from regard.data.vectors.counts import co_occurrence, numbered
from regard.data.vectors.near import Vectors
from regard.lab import _made_language, word_vectors
from regard.lab._experiment import Setting
from regard.lab.word_vectors import KINDS, PAIRS, SIZES, WordVectors, agreement, known, on_a_plane, shuffled

EXPERIMENT = WordVectors()


@pytest.fixture(scope="module")
def numbers(tiny):
    return tiny("word_vectors").numbers


def test_it_holds_and_the_control_has_nothing(numbers):
    verdict = EXPERIMENT.verdict(numbers)
    assert verdict.held, verdict.sentence
    assert numbers["text"]["losses"][-1] < numbers["text"]["losses"][0] / 3
    assert numbers["text"]["same"] > numbers["text"]["other"] + 0.3
    assert abs(numbers["shuffled"]["same"] - numbers["shuffled"]["other"]) < 0.1
    assert numbers["text"]["agreement"] > 0.3 > abs(numbers["shuffled"]["agreement"])


def test_a_shuffled_text_flips_it(monkeypatch):
    """The whole experiment on a language whose words come in any order."""
    made = _made_language.sentences

    def any_order(count, random):
        lines = list(made(count, random))
        words = random.permutation(" ".join(lines).split()).tolist()
        return (" ".join(words[i : i + 8]) for i in range(0, len(words), 8))

    monkeypatch.setattr(_made_language, "sentences", any_order)
    assert not EXPERIMENT.verdict(EXPERIMENT.run("tiny", Setting())).held


def test_a_control_that_knows_the_kinds_flips_it(numbers):
    assert not EXPERIMENT.verdict(numbers | {"shuffled": numbers["text"]}).held
    assert not EXPERIMENT.verdict(numbers | {"text": numbers["shuffled"]}).held


def test_scores_by_hand(monkeypatch):
    """Vectors that are given instead of learnt: two kinds, one word astray, and an analogy right and one wrong."""
    words = {"a1": (1, 0), "a2": (1, 0.1), "b1": (0, 1), "b2": (0.1, 1), "b3": (1, -0.2)}
    vectors = Vectors(list(words), np.array(list(words.values()), dtype=np.float32))
    monkeypatch.setattr(word_vectors, "learn", lambda *given, losses, **more: losses.append(1.0) or vectors)
    text = numbered(["a1 a2 b1 b2 b3"], str.split)
    kinds = {"a": ["a1", "a2"], "b": ["b1", "b2", "b3"]}
    found = word_vectors.measured(
        text, kinds, [("a1", "a2", "b2", "b1"), ("a1", "a2", "b2", "b3")], SIZES["tiny"], Setting(), "text"
    )
    assert found["together"] == pytest.approx(0.8) and found["analogies"] == 0.5
    lengths = np.linalg.norm(vectors.values, axis=1)
    cosines = vectors.values @ vectors.values.T / np.outer(lengths, lengths)
    same = [cosines[0, 1], cosines[2, 3], cosines[2, 4], cosines[3, 4]]
    assert found["same"] == pytest.approx(np.mean(same), abs=1e-4)
    assert sum(found["histogram"]["same"]) == pytest.approx(1, abs=1e-3)


def test_shuffling_keeps_words_and_lines():
    text = numbered(_made_language.sentences(200, np.random.default_rng(1)))
    other = shuffled(text, seed=1)
    assert sorted(other.ids) == sorted(text.ids) and (other.ids != text.ids).any()
    assert (other.lines == text.lines).all() and other.words == text.words


def test_agreement_is_the_correlation_with_mutual_information():
    """Vectors made so that their cosines are a straight line in the mutual information of three pairs."""
    counts = co_occurrence(numbered(["x y", "x y", "x y", "x z", "y z", "y z"], str.split), 1)
    matrix = counts.matrix()
    sums = matrix.sum(0)
    information = np.log(matrix * matrix.sum() / np.outer(sums, sums), where=matrix > 0, out=np.zeros_like(matrix))
    gram = np.eye(3) + np.where(np.eye(3) > 0, 0, 0.2 * information)
    vectors = Vectors(counts.words, np.linalg.cholesky(gram))
    assert agreement(counts, vectors) == pytest.approx(1)


def test_the_plane_keeps_what_differs_most():
    points = np.array([[0.0, 0, 0], [4, 0, 0], [0, 2, 0], [0, 0, 0.1]])
    found = on_a_plane(points, {"a": ["p", "q"], "b": ["r", "s"]})
    (p, q), s = found["a"].values(), found["b"]["s"]
    assert np.linalg.norm(np.subtract(p, q)) == pytest.approx(4, rel=0.02)
    assert np.linalg.norm(np.subtract(p, s)) < 0.2


def test_the_lists_are_asked_only_where_the_text_has_their_words():
    text = numbered(["france french germany german he she his her"])
    kinds, questions = known(SIZES["full"], text)
    assert kinds["countries"] == ["france", "germany"] and kinds["days"] == []
    assert sorted(questions) == sorted(
        [
            ("france", "french", "germany", "german"),
            ("germany", "german", "france", "french"),
            ("he", "she", "his", "her"),
            ("his", "her", "he", "she"),
        ]
    )
    assert all(len(set(words)) == len(words) for words in KINDS.values()) and len(PAIRS[0]) == 14


def test_the_made_language_has_every_word():
    there = {word for line in _made_language.sentences(3000, np.random.default_rng(1)) for word in line.split()}
    assert there.issuperset(word for words in _made_language.KINDS.values() for word in words)
    assert there.issuperset(word for question in _made_language.analogies() for word in question)
    assert len(_made_language.analogies()) == 60 and not any("{" in word for word in there)
