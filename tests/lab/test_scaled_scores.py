"""Entropy and Jacobian against torch; the verdict needs wide vectors of variance 1."""

from __future__ import annotations

import math

import pytest
import torch

from regard.lab import scaled_scores
from regard.lab._experiment import Setting
from regard.lab.scaled_scores import ScaledScores, measured, shares

EXPERIMENT = ScaledScores()


@pytest.fixture(scope="module")
def numbers(tiny):
    return tiny("scaled_scores").numbers


def test_entropy_and_jacobian_are_torchs():
    torch.manual_seed(3)
    query, key = torch.randn(4, 1, 8), torch.randn(4, 6, 8)
    found = measured(query, key)
    scores = (query @ key.transpose(1, 2))[:, 0].double() / math.sqrt(8)
    entropy = torch.distributions.Categorical(logits=scores).entropy().mean().item()
    jacobians = [torch.autograd.functional.jacobian(lambda z: torch.softmax(z, -1), z) for z in scores]
    assert found["entropy"] == pytest.approx(entropy, rel=1e-3)
    assert found["passes"] == pytest.approx(sum(j.norm().item() for j in jacobians) / 4, rel=1e-3)
    assert found["largest"] == pytest.approx(scores.softmax(-1).amax(-1).mean().item(), rel=1e-3)
    assert found["spread"] == pytest.approx(scores.std().item(), rel=1e-3)


def test_products_of_random_vectors_have_variance_d_k(numbers):
    for one in numbers["measured"]:
        wanted = 1 if one["way"] == "scaled" else math.sqrt(one["width"])
        assert one["spread"] == pytest.approx(wanted, rel=0.12)


def test_it_holds_and_the_scaled_stay(numbers):
    verdict = EXPERIMENT.verdict(numbers)
    assert verdict.held, verdict.sentence
    assert shares(numbers, "scaled", "entropy") == pytest.approx([1, 1], abs=0.05)


def test_vectors_that_are_short_need_no_scale(monkeypatch):
    """With variance 1 / sqrt(d_k) instead of 1 the products have variance 1 by themselves."""
    drawn = torch.randn
    monkeypatch.setattr(torch, "randn", lambda *shape, **how: drawn(*shape, **how) * shape[-1] ** -0.25)
    assert not EXPERIMENT.verdict(EXPERIMENT.run("tiny", Setting())).held


def test_narrow_vectors_need_no_scale(monkeypatch):
    recipe = scaled_scores.Recipe(widths=(4, 8), queries=50, seeds=1)
    monkeypatch.setattr(scaled_scores, "SIZES", {"tiny": recipe})
    assert not EXPERIMENT.verdict(EXPERIMENT.run("tiny", Setting())).held


def test_without_the_division_both_saturate(monkeypatch):
    def unscaled(query, key, mask):
        return (query @ key.transpose(-2, -1)).softmax(-1)

    monkeypatch.setattr(scaled_scores, "attention_weights", unscaled)
    assert not EXPERIMENT.verdict(EXPERIMENT.run("tiny", Setting())).held
