"""Examples in memory: each once per epoch, in an order that depends on the seed alone, resumable from a cursor."""

from itertools import islice

import numpy as np
import pytest
import torch

from regard.data.examples import Coded, ExampleBatches, collate
from regard.errors import UserError


def examples(count: int = 37, kind: type = np.int64) -> list[Coded]:
    """Example i holds i + 1 everywhere, so that it is known wherever it turns up."""
    lengths = [1 + (7 * i) % 11 for i in range(count)]
    return [
        Coded(np.full(n, i + 1, kind), np.full(n % 3 + 1, i + 1), np.arange(n % 3 + 1) > 0)
        for i, n in enumerate(lengths)
    ]


def stream(**options) -> ExampleBatches:
    made = examples()
    return ExampleBatches(lambda epoch: made, varying=True, **{"batch_tokens": 60, "seed": 3, **options})


def epoch_of(batches: ExampleBatches) -> list[torch.Tensor]:
    taken, epoch = [], batches.cursor()["epoch"]
    for batch in batches:
        taken.append(batch)
        if batches.cursor()["epoch"] > epoch:
            return taken
    raise AssertionError("an epoch never ends")


@pytest.mark.parametrize("options", [{}, {"batch_examples": 5}])
def test_an_epoch_holds_every_example_once_and_the_next_comes_in_another_order(options):
    batches = stream(**options)
    first, second = epoch_of(batches), epoch_of(batches)
    orders = [[int(row[0]) for batch in taken for row in batch.source] for taken in (first, second)]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(1, 38))
    assert orders[0] != orders[1]


def test_the_budget_counts_padding():
    for batch in epoch_of(stream()):
        assert batch.source.numel() <= 60
    assert {len(batch) for batch in epoch_of(stream(batch_examples=5))} <= {5, 2}


def test_like_lengths_meet():
    taken = epoch_of(stream())
    real = sum(int(batch.source_mask.sum()) for batch in taken)
    assert real / sum(batch.source.numel() for batch in taken) > 0.85


def test_only_the_seed_decides_and_a_cursor_finds_its_place():
    whole = [batch.source for batch in islice(stream(), 20)]
    for a, b in zip(whole, (batch.source for batch in stream()), strict=False):
        assert torch.equal(a, b)
    one = stream()
    for _ in islice(one, 7):
        pass
    other = stream()
    other.seek(one.cursor())
    for wanted, batch in zip(whole[7:], other, strict=False):
        assert torch.equal(wanted, batch.source)
    assert not all(torch.equal(a, b.source) for a, b in zip(whole, stream(seed=4), strict=False))


def test_a_cursor_behind_the_last_batch_goes_to_the_next_epoch():
    batches = stream()
    batches.seek({"epoch": 2, "batch": 1000})
    next(iter(batches))
    assert batches.cursor() == {"epoch": 3, "batch": 1}


def test_epochs_may_be_cut_differently():
    def epochs(epoch: int) -> list[Coded]:
        return [Coded(np.array([epoch]), np.array([1]), np.array([True]))] * 3

    batches = ExampleBatches(epochs, varying=True, batch_tokens=100)
    assert [int(batch.source[0, 0]) for batch in islice(batches, 3)] == [0, 1, 2]


def test_padding_masks_and_units():
    batch = collate(examples(4), varying=True)
    assert (batch.source[~batch.source_mask] == 0).all() and (batch.source[batch.source_mask] > 0).all()
    assert batch.units == int(batch.target_mask.sum()) and not batch.target_mask[:, 0].any()
    pictures = [Coded(np.ones((3, 4, 4), np.float32) * i, np.array([i]), np.array([True])) for i in range(5)]
    stacked = collate(pictures, varying=False)
    assert stacked.source.shape == (5, 3, 4, 4) and stacked.source_mask.shape == (5, 1)
    halves = stacked.split()
    assert [len(half) for half in halves] == [2, 3] and sum(half.units for half in halves) == 5


def test_nothing_to_train_on_is_said():
    with pytest.raises(UserError, match="no examples"):
        ExampleBatches(lambda epoch: [], varying=True, batch_tokens=10)
