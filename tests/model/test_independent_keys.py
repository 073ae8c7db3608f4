"""A model of independent keys is the published one: a Bernoulli distribution per key over a recurrent network."""

import itertools

import pytest
import torch
from torch.nn import functional as F

from regard.data.tokenizer.pitches import Pitches
from regard.decoder.independent_keys import BAR, IndependentKeys
from regard.errors import UserError
from regard.model.language_model import LanguageModel
from regard.types import BEGIN, END

KEYS = 5


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    decoder = IndependentKeys(BAR + 1 + KEYS, memory_width=None, width=8, layers=1, dropout=0.0)
    for parameter in decoder.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return LanguageModel(decoder).eval()


def text(steps):
    return [token for step in steps for token in [*(BAR + 1 + key for key in sorted(step)), BAR]]


@torch.no_grad()
def log_p(model, steps):
    """-log p of each step, by the language model's tokens."""
    ids = torch.tensor([[BEGIN, *text(steps)]])
    each = model(ids[:, :-1]).log_softmax(-1).gather(-1, ids[:, 1:, None])[0, :, 0]
    finished = (ids[0, 1:] == BAR).cumsum(0) - (ids[0, 1:] == BAR).long()
    return torch.zeros(len(steps)).scatter_add(0, finished, each)


@torch.no_grad()
def test_a_step_costs_what_independent_keys_cost_over_a_network_written_with_torch_nn(model):
    steps = [[0, 2], [], [1, 3, 4], [4], [0, 1, 2, 3, 4]]
    decoder, cell = model.decoder, model.decoder.recurrence.cells[0]
    binary = torch.zeros(len(steps), KEYS)
    for row, step in zip(binary, steps):
        row[step] = 1
    table = decoder.embedding.table.weight * decoder.embedding.scale
    lstm = torch.nn.LSTM(8, 8, batch_first=True)
    names = {"weight_ih_l0": cell.inward, "weight_hh_l0": cell.recurrent, "bias_ih_l0": cell.bias}
    lstm.load_state_dict({**lstm.state_dict(), **names, "bias_hh_l0": torch.zeros(32)})
    inputs = binary @ table[BAR + 1 :] + table[BAR]  # a linear layer over the binary vector
    outputs = torch.cat([torch.zeros(1, 8), lstm(inputs[None])[0][0]])[: len(steps)]
    odds = outputs @ decoder.keys.weight.T + decoder.keys.bias
    wanted = -F.binary_cross_entropy_with_logits(odds[:, 1:], binary, reduction="none").sum(1)
    wanted = wanted + F.logsigmoid(-odds[:, 0])  # the piece goes on
    torch.testing.assert_close(log_p(model, steps), wanted, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_all_steps_and_the_end_have_probability_one_together(model):
    past = [[1, 2], [0]]
    every = [list(keys) for n in range(KEYS + 1) for keys in itertools.combinations(range(KEYS), n)]
    total = sum(log_p(model, [*past, step])[-1].exp() for step in every)
    end = model(torch.tensor([[BEGIN, *text(past)]]))[0, -1].softmax(-1)[END]
    assert float(total + end) == pytest.approx(1, abs=1e-5) and 0.01 < float(end) < 0.99


@torch.no_grad()
def test_within_a_step_keys_rise(model):
    after = model(torch.tensor([[BEGIN, BAR + 1 + 2]]))[0, -1].softmax(-1)
    possible = [token for token, probability in enumerate(after.tolist()) if probability > 0]
    assert possible == [BAR, BAR + 1 + 3, BAR + 1 + 4]


def test_what_it_is_not_for():
    with pytest.raises(UserError, match="no source to attend to"):
        IndependentKeys(20, memory_width=8)
    with pytest.raises(UserError, match="use the tokenizer pitches"):
        IndependentKeys(5, memory_width=None)
    with pytest.raises(UserError, match="pitch 20 is not on the keyboard"):
        Pitches().encode("20 |")
