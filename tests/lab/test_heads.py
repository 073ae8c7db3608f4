"""Measurements of heads by hand and by finite differences; random weights flip the verdict."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.assemble import build_model
from regard.lab._everyday import OTHERS, TESTED
from regard.lab._heads import PROFILE, attentions, divergence, gated, importance, looks, seen
from regard.lab.heads import LEAST, MOST, RANDOM, Heads, by_worth, shuffled
from regard.types import BEGIN, END

EXPERIMENT = Heads()
CPU = torch.device("cpu")
PAIRS = [([5, 6, 7, END], [BEGIN, 8, 9, END]), ([9, 5, END], [BEGIN, 7, 6, 5, 8, END]), ([4, END], [BEGIN, 4, END])]


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(5)
    return build_model({"width": 16, "layers": 2, "heads": 4, "feed_forward": 32, "dropout": 0.0}, 12).double().eval()


@pytest.fixture(scope="module")
def numbers(tiny):
    return tiny("heads").numbers


def pruned_well(numbers: dict) -> dict:
    """A tiny test has too few sentences for a BLEU that says much: here, what it would be."""
    changed = copy.deepcopy(numbers)
    changed["bleu"] = {LEAST: [50.0, 45.0], MOST: [50.0, 10.0], f"{RANDOM} 1": [50.0, 30.0]}
    return changed


def test_the_tested_sentences_are_those_of_the_documentation():
    file = Path(__file__).parents[2] / "docs" / "everyday.fr.txt"
    kept = file.read_text(encoding="utf-8").splitlines()
    assert [source for source, _ in TESTED][: len(kept)] == kept
    assert not {source for source, _ in TESTED} & {source for source, _ in OTHERS}


def test_heads_made_by_hand_look_where_they_were_made_to():
    """Four tokens and the mark: one head looks back, one ahead, one everywhere."""
    before, after = torch.zeros(5, 5), torch.zeros(5, 5)
    before[0, 0] = after[4, 4] = 1
    for i in range(4):
        before[i + 1, i] = after[i, i + 1] = 1
    found = {
        key: v.mean(0) for key, v in looks(torch.stack([before, after, torch.full((5, 5), 0.2)]), "encoder").items()
    }
    assert found["previous"].tolist() == pytest.approx([1, 0, 0.2])
    assert found["next"].tolist() == pytest.approx([0, 1, 0.2])
    assert found["same"].tolist() == pytest.approx([0.25, 0, 0.2])
    assert found["entropy"].tolist() == pytest.approx([0, 0, 1], abs=1e-6)
    assert found["apart"][0, 1] == pytest.approx(1) and found["apart"].diagonal().tolist() == pytest.approx([0, 0, 0])
    assert found["profile"].sum(-1).tolist() == pytest.approx([1, 1, 1])
    assert found["profile"][1, -1] == pytest.approx(0.25)  # the last token looks ahead at the mark


def test_a_decoders_first_token_has_no_choice_and_says_nothing():
    weights = torch.tensor([[[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]])
    found = looks(weights, "decoder")
    assert len(found["entropy"]) == 2 and "next" not in found
    assert found["entropy"][0].item() == pytest.approx(1)
    assert found["previous"].mean().item() == pytest.approx((0.5 + 0.3) / 2)
    assert found["profile"][2, 0].tolist() == pytest.approx([0, 0, 0.3, 0.5, 0, 0, 0, 0.2])
    assert found["profile"].shape[-1] == PROFILE


def test_divergence_is_the_mean_relative_entropy_to_the_middle():
    random = np.random.default_rng(2)
    p, q = random.dirichlet(np.ones(7), 2)
    middle = (p + q) / 2
    wanted = (np.sum(p * np.log2(p / middle)) + np.sum(q * np.log2(q / middle))) / 2
    assert divergence(torch.tensor(p), torch.tensor(q)).item() == pytest.approx(wanted)


def test_what_is_seen_of_sentences_together_is_what_is_seen_of_each(model):
    together = seen(model, PAIRS, CPU)
    alone = [seen(model, [pair], CPU) for pair in PAIRS]
    tokens = [len(source) - 1 for source, _ in PAIRS]
    for name, found in together.items():
        if name.startswith("encoder"):
            for key in ("same", "entropy", "profile"):
                wanted = sum(np.array(one[name][key]) * n for one, n in zip(alone, tokens)) / sum(tokens)
                assert np.array(found[key]) == pytest.approx(wanted, abs=1e-6)
    assert len(together) == 6 and sum("profile" in found for found in together.values()) == 4


def test_a_gate_of_zero_is_a_head_whose_output_is_not_used(model):
    ids, mask, target = torch.tensor([PAIRS[0][0]]), torch.ones(1, 4, dtype=torch.bool), torch.tensor([[BEGIN, 8, 9]])
    name, head = "decoder.layers.1.cross_attention", 2
    gate = torch.ones(4)
    whole = model(ids, mask, target)
    with gated({attentions(model)[name]: gate}):
        assert torch.equal(model(ids, mask, target), whole)
        gate[head] = 0
        without = model(ids, mask, target)
    cut = copy.deepcopy(model)
    attentions(cut)[name].outward.weight.data[:, head * 4 : head * 4 + 4] = 0
    assert torch.allclose(cut(ids, mask, target), without)
    assert not torch.allclose(without, whole)
    assert torch.equal(model(ids, mask, target), whole), "nothing is left of the gates"


def test_importance_is_the_slope_of_each_sentences_loss(model):
    """Against differences of the loss with one gate moved, for every sentence by itself."""
    found = importance(model, PAIRS, CPU)
    small = 1e-5

    def loss(pair: tuple, name: str, head: int, by: float) -> float:
        gate = torch.ones(4, dtype=torch.double)
        gate[head] += by
        source, target = (torch.tensor([ids]) for ids in pair)
        with gated({attentions(model)[name]: gate}), torch.no_grad():
            logits = model(source, torch.ones_like(source, dtype=torch.bool), target[:, :-1])
        return -logits.log_softmax(-1)[0].gather(1, target[0, 1:, None]).sum().item()

    for name in ("encoder.layers.0.attention", "decoder.layers.0.attention", "decoder.layers.1.cross_attention"):
        for head in range(4):
            slopes = [(loss(p, name, head, small) - loss(p, name, head, -small)) / (2 * small) for p in PAIRS]
            assert found[name][head] == pytest.approx(np.abs(slopes).mean(), rel=1e-3, abs=1e-6)


def test_heads_are_ranked_whatever_their_layer():
    order = by_worth({"a": [3.0, 4.0], "b": [0.6, 3.5]})
    assert order == [("b", 0), ("a", 0), ("b", 1), ("a", 1)]
    assert sorted(shuffled(order, 1)) == sorted(order) and shuffled(order, 1) == shuffled(order[::-1], 1)


def test_the_shipped_model_has_heads_for_neighbours_and_a_model_of_random_weights_has_none(numbers):
    verdict = EXPERIMENT.verdict(pruned_well(numbers))
    assert verdict.held, verdict.sentence
    control = pruned_well(numbers)
    control["seen"]["trained"] = control["seen"]["untrained"]
    assert not EXPERIMENT.verdict(control).held


def test_heads_that_are_all_worth_the_same_do_not_count(numbers):
    alike = pruned_well(numbers)
    alike["bleu"][LEAST] = alike["bleu"][MOST] = alike["bleu"][f"{RANDOM} 1"]
    assert not EXPERIMENT.verdict(alike).held


def test_copies_of_one_head_look_alike(numbers):
    copies = pruned_well(numbers)
    for found in copies["seen"]["trained"].values():
        if "profile" in found:
            found["profiles_apart"] = [[0.0] * 6] * 6
    assert not EXPERIMENT.verdict(copies).held
