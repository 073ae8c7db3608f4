"""Dropout follows the lecture's formula, and gains nothing where there is no overfitting."""

from __future__ import annotations

import copy
import gzip
import itertools

import numpy as np
import pytest
import torch
from torch import nn

from regard.lab import dropout
from regard.lab._experiment import Setting
from regard.lab.dropout import (
    KEPT,
    SIZES,
    Data,
    Dropout,
    Network,
    Recipe,
    Thinned,
    averaged,
    error,
    fashion,
    gain,
    made,
    wrong,
)

EXPERIMENT = Dropout()
RECIPE = SIZES["tiny"]
LITTLE = Recipe(few=60, plenty=500, steps=20, architectures=((1, 16),), seeds=1, tests=50, thinned=(1, 2))


@pytest.fixture(scope="module")
def numbers(tiny):
    return tiny("dropout").numbers


def test_it_is_torchs_dropout_which_counts_what_is_dropped():
    y = torch.randn(200, 50)
    torch.manual_seed(3)
    ours = Thinned(KEPT)(y)
    torch.manual_seed(3)
    torch.testing.assert_close(ours, nn.Dropout(1 - KEPT)(y))
    assert (ours != 0).float().mean().item() == pytest.approx(0.8, abs=0.01)
    assert torch.equal(Thinned(KEPT).eval()(y), y)


def test_the_mean_over_all_thinned_layers_is_the_scaled_one():
    """The lecture's form: E[W (r y)] = p W y, summed over all 2^6 masks; and ours, whose weights are p times those."""
    torch.manual_seed(4)
    weights, y = torch.randn(3, 6, dtype=torch.float64), torch.randn(6, dtype=torch.float64)
    mean = torch.zeros(3, dtype=torch.float64)
    for mask in itertools.product((0.0, 1.0), repeat=6):
        r = torch.tensor(mask, dtype=torch.float64)
        mean += KEPT ** r.sum() * (1 - KEPT) ** (6 - r.sum()) * (weights @ (r * y))
    torch.testing.assert_close(mean, (KEPT * weights) @ y)
    ours = Thinned(KEPT)(y.expand(200_000, 6)) @ (KEPT * weights).T
    torch.testing.assert_close(ours.mean(0), mean, atol=0.03, rtol=0)


def test_averaged_by_torchs_own_layers():
    data = made(LITTLE, seed=2)
    network = Network(data, 1, 16, KEPT, seed=2)
    peer = nn.Sequential(nn.Dropout(0.2), nn.Linear(100, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 4))
    peer[1].load_state_dict(network.all[1].state_dict())
    peer[4].load_state_dict(network.all[4].state_dict())
    torch.manual_seed(9)
    found = averaged(network, data, (1, 4))
    torch.manual_seed(9)
    with torch.no_grad():
        each = [peer.train()(data.test_x).softmax(1) for _ in range(4)]
        scaled = peer.eval()(data.test_x).softmax(1)
    for place, mean in enumerate((each[0], torch.stack(each).mean(0))):
        right = mean.argmax(1) == data.test_y
        assert found["errors"][place] == pytest.approx(100 * (1 - right.float().mean().item()), rel=1e-3)
        assert found["agree"][place] == pytest.approx((mean.argmax(1) == scaled.argmax(1)).float().mean().item())
        assert found["apart"][place] == pytest.approx((mean - scaled).abs().mean().item(), rel=1e-3)


def test_wrong_by_hand():
    scores = torch.tensor([[1.0, 2.0], [3.0, 0.0], [0.0, 1.0], [5.0, 4.0]])
    assert wrong(scores, torch.tensor([1, 0, 0, 0])) == 25.0


def test_a_fifth_of_the_labels_is_drawn_anew_in_training_only():
    """Who knows the prototypes answers by the nearest: 3 of 4 labels drawn anew are then wrong."""
    data = made(Recipe(10, 8000, 0, (), 1, tests=8000), seed=1)
    prototypes = torch.randn(12, 100, generator=torch.Generator().manual_seed(1))
    train, test = (
        ((torch.cdist(x, prototypes).argmin(1) % 4) != y).float().mean().item()
        for x, y in ((data.x, data.y), (data.test_x, data.test_y))
    )
    assert test < 0.06
    assert train - test == pytest.approx(0.2 * 3 / 4, abs=0.02)


def test_it_holds_and_with_plenty_nothing_is_gained(numbers):
    verdict = EXPERIMENT.verdict(numbers)
    assert verdict.held, verdict.sentence
    for architecture in RECIPE.architectures:
        assert error(numbers, architecture, "few", 1.0, "train") < 1, "they know the few by heart"
        assert error(numbers, architecture, "plenty", 1.0, "train") > 10
        assert gain(numbers, architecture, "plenty") < gain(numbers, architecture, "few") / 2


def test_plenty_in_place_of_few_flips_it(numbers):
    made = copy.deepcopy(numbers)
    made["runs"] = [
        run | {"amount": amount} for run in made["runs"] if run["amount"] == "plenty" for amount in ("few", "plenty")
    ]
    assert not EXPERIMENT.verdict(made).held


def test_a_gain_that_plenty_does_not_take_away_flips_it(numbers):
    made = copy.deepcopy(numbers)
    made["runs"] = [
        run | {"amount": amount} for run in made["runs"] if run["amount"] == "few" for amount in ("few", "plenty")
    ]
    assert not EXPERIMENT.verdict(made).held


def test_networks_that_are_not_thinned_gain_nothing(monkeypatch):
    monkeypatch.setattr(Thinned, "forward", lambda self, y: y)
    monkeypatch.setattr(dropout, "SIZES", {"tiny": LITTLE})
    numbers = EXPERIMENT.run("tiny", Setting())
    assert gain(numbers, (1, 16), "few") == gain(numbers, (1, 16), "plenty") == 0
    assert numbers["averages"][0]["agree"] == [1, 1]
    assert not EXPERIMENT.verdict(numbers).held


def test_fashion_is_read_and_shuffled_together(tmp_path):
    (tmp_path / "fashion_mnist").mkdir()
    labels = np.arange(12, dtype=np.uint8) % 10
    for part in ("train", "t10k"):
        pictures = np.repeat(labels[:, None], 4, axis=1).reshape(12, 2, 2) * 20
        for kind, axes, array in (("images-idx3", 3, pictures), ("labels-idx1", 1, labels)):
            head = bytes([0, 0, 8, axes]) + b"".join(size.to_bytes(4, "big") for size in array.shape)
            path = tmp_path / "fashion_mnist" / f"{part}-{kind}-ubyte.gz"
            path.write_bytes(gzip.compress(head + array.astype(np.uint8).tobytes()))
    recipe = Recipe(2, 12, 0, (), 1, tests=5)
    data = fashion(recipe, 1, Setting(data=tmp_path))
    assert isinstance(data, Data) and len(data.test_x) == 5
    grey = labels * 20 / 255
    wanted = (data.y.numpy() * 20 / 255 - grey.mean()) / np.repeat(grey, 4).std(ddof=1)
    np.testing.assert_allclose(data.x[:, 0].numpy(), wanted, rtol=1e-4)
    assert not torch.equal(data.y, fashion(recipe, 2, Setting(data=tmp_path)).y)
