"""Cosine similarity against torch; the slide's range holds only without negative numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.lab import cosine_similarity
from regard.lab._experiment import Setting
from regard.lab.cosine_similarity import CosineSimilarity, measured

EXPERIMENT = CosineSimilarity()


@pytest.fixture(scope="module")
def numbers(tiny):
    return tiny("cosine_similarity").numbers


def test_the_least_and_greatest_are_torchs():
    random = np.random.default_rng(4)
    pairs = [(random.standard_normal(7), random.standard_normal(7)) for _ in range(50)]
    found = measured(pairs)
    one, other = (torch.from_numpy(np.stack(side)) for side in zip(*pairs))
    wanted = torch.cosine_similarity(one, other)
    assert (found["least"], found["greatest"]) == pytest.approx((wanted.min().item(), wanted.max().item()), abs=1e-6)
    assert found["negative"] == pytest.approx((wanted < 0).double().mean().item())


def test_the_slides_range_does_not_hold(numbers):
    verdict = EXPERIMENT.verdict(numbers)
    assert not verdict.held and "a cosine lies between -1 and 1, not between 0 and 1" in verdict.sentence
    assert numbers["turned"]["cosine"][-1] == -1 and numbers["turned"]["cosine"][18] == 0
    assert numbers["like_and_enjoy"]["cosine"] == pytest.approx(2 / 12**0.5)


def test_without_negative_numbers_it_holds(numbers):
    """The control: what makes the slide wrong is taken away, and the verdict turns."""
    counts = [group for group in numbers["groups"] if group["vectors"] == "counts of words"]
    assert EXPERIMENT.verdict(numbers | {"groups": counts}).held
    random = np.random.default_rng(1)
    positive = measured([(random.random(5), random.random(5)) for _ in range(300)])
    assert EXPERIMENT.verdict(numbers | {"groups": [*counts, {"vectors": "positive"} | positive]}).held


def test_a_cosine_that_depends_on_lengths_is_found(numbers, monkeypatch):
    monkeypatch.setattr(cosine_similarity, "cosine", cosine_similarity.dot)
    counts = [g for g in EXPERIMENT.run("tiny", Setting())["groups"] if g["vectors"] == "counts of words"]
    assert not EXPERIMENT.verdict(numbers | {"groups": counts}).held
