"""Which modules may be gathered one by one, and checkpoints of shares that any number of processes reads."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from regard.data.examples import collate
from regard.training.sharded import separable
from regard.types import Batch, LossSum
from tests.training.ranks import Scenario, alone, examples, make_model, train_together
from tests.training.test_distributed import EMA, same


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        self.gain = nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.gain * self.inner(x)


class Stack(nn.Module):
    """Layers of which some are reached into: 1 by its gain, 2 by what is inside it, 3 is never used."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(4))
        self.beside = Layer()

    def loss(self, batch: Batch) -> LossSum:
        x = batch.target_mask.float()[:, :3]
        x = x * self.layers[1].gain[:3]
        x = x @ self.layers[2].inner[0].weight.T
        for layer in (*self.layers[:3], self.beside):
            x = layer(x)
        return LossSum(x.sum(), batch.units)


def test_only_what_nobody_reaches_into_is_gathered_alone() -> None:
    assert separable(Stack(), collate(examples()[:3], True)) == ["layers.0", "layers.1.inner"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("language_model", ["decoder.layers.0", "decoder.layers.1"]),
        (
            "seq2seq",  # the keys of the memory are computed before a decoder's layer has its turn
            [
                "encoder.layers.0",
                "encoder.layers.1",
                "decoder.layers.0.feed_forward",
                "decoder.layers.1.feed_forward",
            ],
        ),
        ("lstm", []),
    ],
)
def test_what_is_gathered_alone_of_real_models(kind: str, expected: list[str]) -> None:
    before = torch.random.get_rng_state()
    model = make_model(kind, 0.1)
    torch.random.set_rng_state(before)
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert separable(model, collate(examples()[:3], True)) == expected
    assert torch.equal(torch.random.get_rng_state(), before), "looking draws no random numbers"
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())


@pytest.mark.slow
def test_three_processes_all_models_and_all_numbers_of_processes(tmp_path: Path) -> None:
    """Three ranks, of which one is often without a batch and without a row of a small weight."""
    torch.set_num_threads(1)
    kinds = ["language_model", "universal", "attentional", "lstm", "normed"]
    shards = {**EMA, "accumulate": 4, "shard": True}
    by_three = [Scenario(str(tmp_path / f"three-{kind}"), kind, training=shards) for kind in kinds]
    by_three += [Scenario(str(tmp_path / "dropout-3"), training={"accumulate": 6}, dropout=0.3)]
    train_together(by_three, ranks=3)
    stopped = Scenario(str(tmp_path / "moved"), "seq2seq", training=shards, signal_at=(1, 6))
    train_together([stopped, replace(by_three[-1], folder=str(tmp_path / "dropout-2"))], ranks=2)
    train_together([replace(stopped, resume=True, signal_at=(-1, 0))], ranks=3)
    for scenario in [*by_three[:-2], replace(stopped, signal_at=(-1, 0))]:
        one = replace(scenario, folder=f"{scenario.folder}-one", resume=False)
        alone(one)
        same(Path(one.folder), Path(scenario.folder), begun=7 if scenario.model == "seq2seq" else 0)
    same(tmp_path / "dropout-3", tmp_path / "dropout-2")
    shutil.rmtree(tmp_path)
