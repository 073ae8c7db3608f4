"""Answers and changes counted by hand; an encoder with positions flips the verdict."""

from __future__ import annotations

import copy
import math

import pytest
import torch

from regard.lab.shuffled_input import (
    MODELS,
    QUESTIONS,
    SIZES,
    WITH,
    WITHOUT,
    ShuffledInput,
    answered,
    built,
    change_by_shuffling,
    exchanged,
    rights,
    sequences,
    states,
)
from regard.layers.position.none import NoPosition
from regard.layers.position.sinusoidal import Sinusoidal

EXPERIMENT = ShuffledInput()
RECIPE = SIZES["tiny"]


@pytest.fixture(scope="module")
def numbers(tiny):
    return tiny("shuffled_input").numbers


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_answers_are_right(question):
    source, answers = sequences(question, 300, 9, torch.Generator().manual_seed(5))
    for letters, answer in zip(source.tolist(), answers.tolist()):
        if question == QUESTIONS[0]:
            assert letters.count(0) == letters.count(1) == 1
            assert answer == (0 if letters.index(0) < letters.index(1) else 1)
        else:
            assert letters.count(answer) > letters.count(1 - answer)
    assert 0.4 < answers.float().mean() < 0.6
    assert torch.equal(exchanged(exchanged(source)), source)


def test_a_layer_spelled_out_gives_the_shuffled_output():
    """softmax(Q K^T / sqrt(d)) V, head by head, of P X is P times that of X; and the encoder computes that formula."""
    network = built(WITHOUT, RECIPE, seed=3).double().eval()
    source = torch.randint(8, (1, 6), generator=torch.Generator().manual_seed(1))
    order = torch.tensor([4, 2, 0, 5, 1, 3])

    def spelled_out(x):
        (layer,) = network.encoder.layers
        attention, normed = layer.attention, layer.around_attention.norm(x)
        query, key, value = (normed @ attention.inward.weight.T + attention.inward.bias).chunk(3, -1)
        heads = [
            ((q @ k.T) / math.sqrt(q.shape[-1])).softmax(-1) @ v
            for q, k, v in zip(query.chunk(4, -1), key.chunk(4, -1), value.chunk(4, -1))
        ]
        x = x + torch.cat(heads, -1) @ attention.outward.weight.T + attention.outward.bias
        inner = layer.around_feed_forward.norm(x) @ layer.feed_forward.inward.weight.T + layer.feed_forward.inward.bias
        x = x + inner.relu() @ layer.feed_forward.outward.weight.T + layer.feed_forward.outward.bias
        return network.encoder.norm(x)

    with torch.no_grad():
        x = network.stem.embedding.table(source[0]) * 16**0.5
        permutation = torch.eye(6, dtype=torch.float64)[order]
        torch.testing.assert_close(states(network, source)[0], spelled_out(x), atol=1e-12, rtol=1e-12)
        torch.testing.assert_close(spelled_out(permutation @ x), permutation @ spelled_out(x), atol=1e-12, rtol=1e-12)
        torch.testing.assert_close(
            states(network, source[:, order])[0], permutation @ spelled_out(x), atol=1e-12, rtol=1e-12
        )


def test_it_holds_and_who_is_deaf_to_order_has_exactly_half(numbers):
    verdict = EXPERIMENT.verdict(numbers)
    assert verdict.held, verdict.sentence
    assert rights(numbers, WITHOUT, QUESTIONS[0], "right") == [0.5]
    assert rights(numbers, WITHOUT, QUESTIONS[1], "shuffled") == rights(numbers, WITHOUT, QUESTIONS[1], "right")


def test_positions_that_are_there_flip_it(numbers, monkeypatch):
    """The same run, but the model said to be without positions has them."""
    monkeypatch.setattr(NoPosition, "forward", lambda self, positions: Sinusoidal(self.width)(positions))
    change = change_by_shuffling(WITHOUT, RECIPE, 1)
    found = answered(WITHOUT, QUESTIONS[0], RECIPE, 1, torch.device("cpu"), lambda: None)
    assert change > 0.01 and found["right"] > 0.9
    assert not EXPERIMENT.verdict(changed(numbers, "changes", WITHOUT, change=change)).held
    assert not EXPERIMENT.verdict(changed(numbers, "answers", WITHOUT, QUESTIONS[0], **found)).held


def test_without_positions_nobody_learns_the_order(numbers, monkeypatch):
    monkeypatch.setattr(Sinusoidal, "forward", lambda self, positions: NoPosition(self.width)(positions))
    found = answered(WITH[1], QUESTIONS[0], RECIPE, 1, torch.device("cpu"), lambda: None)
    assert found["right"] == 0.5
    assert not EXPERIMENT.verdict(changed(numbers, "answers", WITH[1], QUESTIONS[0], **found)).held


@pytest.mark.parametrize("model", MODELS)
def test_a_control_that_is_not_learnt_flips_it(numbers, model):
    assert not EXPERIMENT.verdict(changed(numbers, "answers", model, QUESTIONS[1], right=0.6)).held


def changed(numbers, part, model, question=None, **values):
    made = copy.deepcopy(numbers)
    for found in made[part]:
        if found["model"] == model and found.get("question") == question:
            found |= values
    return made
