"""Masking: the share asked for, known tokens only, 8:1:1 in training; deterministic outside of training."""

import pytest
import torch

from regard.assemble import build_model
from regard.errors import UserError
from regard.model.masked_language_model import MASK
from regard.types import BEGIN, END, PAD, Batch

VOCABULARY = 200


@pytest.fixture
def model():
    torch.manual_seed(0)
    return build_model({"kind": "masked_language_model", "width": 16, "layers": 1, "heads": 2}, VOCABULARY)


@pytest.fixture
def texts():
    torch.manual_seed(1)
    source = torch.randint(END + 1, VOCABULARY, (400, 20))
    lengths = torch.randint(1, 21, (400, 1))
    source = source.masked_fill(torch.arange(20) >= lengths, PAD)
    wanted = torch.arange(3) < (0.15 * lengths).round().clamp(min=1)
    return source, wanted


@pytest.mark.parametrize("training", [True, False])
def test_as_many_as_wanted_and_only_known_tokens(model, texts, training):
    source, wanted = texts
    source[:, 0], source[:50, 1] = BEGIN, MASK
    source[:, 2:4] = source[:, 2:4].clamp(min=END + 1)  # so that there is something to hide in every row
    source[:, 4] = 7
    hidden, places, was = model.train(training).hide(source, wanted)
    changed = torch.zeros_like(source, dtype=torch.bool).scatter(1, places, wanted)
    assert (changed.sum(1) == wanted.sum(1)).all()  # no place twice
    assert torch.equal(hidden[~changed], source[~changed])
    assert (source[changed] > END).all()
    assert torch.equal(was, source.gather(1, places).masked_fill(~wanted, PAD))


def test_eight_of_ten_are_hidden_one_is_another_one_stays(model, texts):
    source, wanted = texts
    torch.manual_seed(5)
    counts = torch.zeros(3)
    for _ in range(20):
        hidden, places, was = model.train().hide(source, wanted)
        now = hidden.gather(1, places)[wanted]
        counts += torch.tensor([(now == MASK).sum(), (now == was[wanted]).sum(), len(now)])
        assert ((now == MASK) | (now > END)).all()
    hidden, same, total = counts.tolist()
    assert hidden / total == pytest.approx(0.8, abs=0.02) and same / total == pytest.approx(0.1, abs=0.02)


def test_in_training_others_each_time_and_as_the_seed_says(model, texts):
    source, wanted = texts
    model.train()
    torch.manual_seed(3)
    first, other = (model.hide(source, wanted)[0] for _ in range(2))
    torch.manual_seed(3)
    assert torch.equal(model.hide(source, wanted)[0], first) and not torch.equal(first, other)


def test_in_training_every_place_is_hidden_as_often(model):
    source, wanted = torch.full((2000, 10), 9), torch.ones(2000, 2, dtype=torch.bool)
    torch.manual_seed(0)
    places = model.train().hide(source, wanted)[1]
    shares = torch.bincount(places.flatten(), minlength=10) / 4000
    assert (shares - 0.1).abs().max() < 0.02


def test_out_of_training_by_the_text_alone(model, texts):
    source, wanted = texts
    model.eval()
    hidden, places, _ = model.hide(source, wanted)
    assert ((hidden.gather(1, places) == MASK) == wanted)[wanted].all()
    torch.manual_seed(9)
    assert torch.equal(model.hide(source.flip(0), wanted.flip(0))[0].flip(0), hidden)
    for row in range(20):
        length = int((source[row] != PAD).sum())
        count = int(wanted[row].sum())
        alone = model.hide(source[row : row + 1, :length], wanted[row : row + 1, :count])[0]
        assert torch.equal(alone[0], hidden[row, :length])
    places = model.hide(torch.randint(END + 1, VOCABULARY, (1000, 10)), torch.ones(1000, 2, dtype=torch.bool))[1]
    shares = torch.bincount(places.flatten(), minlength=10) / 2000
    assert (shares - 0.1).abs().max() < 0.03  # and not always at the same place


def test_the_loss_is_that_of_the_logits(model, texts):
    source, wanted = texts
    batch = Batch(source, source != PAD, torch.zeros(400, 3, dtype=torch.long), wanted, int(wanted.sum()))
    model.eval()
    torch.nn.init.normal_(model.bias)
    hidden, places, was = model.hide(source, wanted)
    logits = model(hidden, batch.source_mask, places)
    by_hand = -logits.log_softmax(-1).gather(2, was[..., None])[..., 0][wanted].sum()
    torch.testing.assert_close(model.loss(batch).total, by_hand, rtol=1e-4, atol=1e-3)
    assert model.loss(batch).units == int(wanted.sum())


def test_only_text_can_be_hidden():
    with pytest.raises(UserError, match="model.stem: only tokens can be masked"):
        build_model({"kind": "masked_language_model", "stem": "features"}, features=3)
