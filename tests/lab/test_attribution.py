"""The curves by hand, and numbers that flip the verdict."""

from __future__ import annotations

import copy
import random

import pytest
import torch

from regard.inspection.trace.base import CROSS
from regard.lab.attribution import (
    ATTENTION,
    BACKWARDS,
    CONTROL,
    RANDOM,
    SHARES,
    Attribution,
    curves,
    gains,
    probabilities,
    ranked,
    summary,
)
from regard.loading import load
from regard.types import BEGIN, END

EXPERIMENT = Attribution()
TEXT = "Je suis étudiant à Paris."


@pytest.fixture(scope="module")
def luong():
    translator = load("fr-en-luong", device="cpu")
    return translator, translator.inspect(TEXT, beam=1)


@pytest.fixture(scope="module")
def numbers(tiny):
    return tiny("attribution").numbers


def test_removed_words_are_gone_from_the_source(luong):
    """Against a pass over the text without them."""
    translator, trace = luong
    position = 2
    found = probabilities(translator, trace, position, [range(5), (0, 1, 2), ()])
    for text, value in zip([TEXT, "Je suis étudiant", ""], found, strict=True):
        ids = torch.tensor([[*translator.encode(text), END]])
        fed = torch.tensor([[BEGIN, *trace.ids[:position]]])
        with torch.inference_mode():
            logits = translator.model(ids, torch.ones_like(ids, dtype=torch.bool), fed)[0, -1]
        assert value == pytest.approx(float(logits.softmax(-1)[trace.ids[position]]), rel=1e-3)
    assert found[0] == pytest.approx(trace.probabilities[position], rel=1e-3)


def test_a_curve_removes_the_first_words_first_and_insertion_ends_where_deletion_begins(luong):
    translator, trace = luong
    order = [4, 2, 0, 1, 3]
    ((deletion, insertion),) = curves(translator, trace, 3, {"one": [order]}).values()
    subsets = [order[k:] for k in range(6)]
    assert deletion == pytest.approx(probabilities(translator, trace, 3, subsets), rel=1e-3)
    assert insertion == pytest.approx(probabilities(translator, trace, 3, [order[:k] for k in range(6)]), rel=1e-3)
    assert deletion[0] == insertion[-1] and deletion[-1] == insertion[0]


def test_orders_are_by_value_and_attention_is_that_of_the_trace(luong):
    translator, trace = luong
    orders = ranked(translator, trace, 4, random.Random(1))
    assert {len(order) for several in orders.values() for order in several} == {5}
    weights = trace.token_matrix()[4]
    by_hand = [sum(w for w, own in zip(weights, trace.source.word_of) if own == word) for word in range(5)]
    (order,) = orders[ATTENTION]
    assert [by_hand[word] for word in order] == sorted(by_hand, reverse=True)
    assert orders[BACKWARDS] == [order[::-1]] and len(orders[RANDOM]) == len(orders[CONTROL]) == 5
    assert trace.of_kind(CROSS) and "rollout" not in orders and "value_zeroing" in orders


def test_a_summary_is_the_mean_of_areas_and_curves():
    one, two = ([1.0, 0.5, 0.0], [0.0, 0.5, 1.0]), ([1.0, 0.0], [0.0, 1.0])
    found = summary([{"m": one}, {"m": two}])["m"]
    assert found["deleted"] == found["inserted"] == 0.5 and found["sentences"] == 2
    assert found["deletion"] == pytest.approx([1 - share for share in SHARES], abs=1e-3)


def made(**areas: float) -> dict:
    """One model with these areas of deletion; those of insertion mirror them."""
    found = {
        name: {"sentences": 9, "deleted": area, "inserted": 1 - area, "deletion": [area] * 11, "insertion": [area] * 11}
        for name, area in areas.items()
    }
    names = {"control": CONTROL, "backwards": BACKWARDS}
    return {"sentences": "some", "found": {"a": {names.get(name, name): one for name, one in found.items()}}}


GOOD = {"occlusion": 0.2, "attention": 0.22, "random": 0.5, "control": 0.49, "backwards": 0.7}


@pytest.mark.parametrize(
    "change, held",
    [
        ({}, True),
        ({"attention": 0.46}, False),  # hardly better than chance
        ({"occlusion": 0.1}, False),  # another method is much better
        ({"control": 0.4}, False),  # chance wins: nothing was measured
        ({"backwards": 0.3}, False),  # so does the opposite order
    ],
)
def test_which_numbers_flip_the_verdict(change, held):
    assert EXPERIMENT.verdict(made(**{**GOOD, **change})).held == held


def test_a_model_without_attention_has_no_say_in_the_verdict():
    numbers = made(**GOOD)
    numbers["found"]["b"] = copy.deepcopy(numbers["found"]["a"])
    for order in (ATTENTION, BACKWARDS):
        del numbers["found"]["b"][order]
    assert EXPERIMENT.verdict(numbers).held
    assert EXPERIMENT.table(numbers)[2][2] == "" and gains(numbers["found"]["b"], RANDOM) == (0.0, 0.0)


def test_the_tiny_run_has_every_method_of_each_model(numbers):
    for name, found in numbers["found"].items():
        assert ("rollout" in found) == (name == "fr-en")
        assert {"input_x_gradient", "integrated_gradients", "occlusion", ATTENTION, RANDOM} <= set(found)
        starts = {found[method]["deletion"][0] for method in found}
        assert len(starts) == 1, "all curves begin at the whole sentence"
