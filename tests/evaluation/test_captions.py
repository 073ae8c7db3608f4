"""CIDEr-D and METEOR's exact module, against numbers worked out by hand and the formula written out with NumPy."""

import math
import random
from collections import Counter

import numpy as np
import pytest

from regard.errors import UserError
from regard.evaluation.captions import cider, meteor_exact, words

WORDS = ["a", "dog", "runs", "on", "grass", "two", "cats", "sit"]


def test_words_are_lowercase_and_without_punctuation():
    assert words("A dog , it's BIG .") == ["a", "dog", "it's", "big"]


def test_the_same_caption_scores_1000_and_one_without_a_common_word_0():
    references = [["a dog runs on grass"], ["two cats sit there still"]]
    assert cider(["A dog runs on grass.", "two cats sit there still"], references) == pytest.approx(1000)
    assert cider(["x y z", "x y z"], references) == 0


def by_numpy(outputs, references):
    """tf-idf vectors over all n-grams that occur, as arrays."""
    grams = lambda text, n: [tuple(text.split()[i : i + n]) for i in range(len(text.split()) - n + 1)]  # noqa: E731
    scores = []
    for output, some in zip(outputs, references):
        for text in some:
            each = []
            for n in range(1, 5):
                every = sorted({g for t in [output, *(r for rs in references for r in rs)] for g in grams(t, n)})
                documents = [sum(any(g in grams(r, n) for r in rs) for rs in references) for g in every]
                idf = np.array([math.log(len(references) / max(1, d)) for d in documents])
                tf = [np.array([Counter(grams(t, n))[g] for g in every]) for t in (output, text)]
                c, s = tf[0] * idf, tf[1] * idf
                norm = np.linalg.norm(c) * np.linalg.norm(s)
                each.append((np.minimum(c, s) @ s) / norm if norm else 0.0)
            gap = len(output.split()) - len(text.split())
            scores.append(10 * np.mean(each) * math.exp(-(gap**2) / 72) / len(some))
    return 100 * sum(scores) / len(outputs)


def test_cider_is_the_formula():
    pick = random.Random(0)
    sentence = lambda: " ".join(pick.choices(WORDS, k=pick.randint(3, 9)))  # noqa: E731
    outputs = [sentence() for _ in range(8)]
    references = [[sentence() for _ in range(3)] for _ in outputs]
    assert cider(outputs, references) == pytest.approx(by_numpy(outputs, references)) and cider(outputs, references) > 1


@pytest.mark.parametrize(
    ("output", "reference", "wanted"),
    [
        ("a dog runs", "a dog runs", 1 - 0.5 / 27),  # one chunk of three
        ("runs a dog", "a dog runs", 1 - 0.5 * (2 / 3) ** 3),  # two chunks
        ("a dog", "a dog runs fast", 10 * 0.5 / (0.5 + 9) * (1 - 0.5 / 8)),
        ("the the", "the cat", 10 * 0.5 * 0.5 / 5 * 0.5),  # a word is matched once
        ("no", "yes", 0.0),
    ],
)
def test_meteor_by_hand(output, reference, wanted):
    assert meteor_exact([output], [["quite another", reference]]) == pytest.approx(100 * wanted)


def test_captions_without_references_are_refused():
    for score in (cider, meteor_exact):
        with pytest.raises(UserError, match="each needs its own"):
            score(["a"], [[]])
