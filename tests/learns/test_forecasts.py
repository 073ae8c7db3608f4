"""A small forecaster learns waves; from shuffled futures it learns nothing."""

import numpy as np
import pytest
import torch

import regard
from regard import runs
from regard.assemble import build_model
from regard.config import read_recipe, tiny_form
from regard.data.examples import Coded, collate
from regard.data.format.made_series import MadeSeries
from regard.data.target.future import Windows
from regard.task.forecast import Forecaster

WINDOW, HORIZON, STEPS = 24, 6, 150
ENCODERS = {
    "rnn": {"kind": "recurrent", "cell": "rnn", "direction": "forward"},
    "lstm": {"kind": "recurrent", "cell": "lstm", "direction": "forward"},
    "transformer": {"kind": "transformer", "heads": 2, "feed_forward": 32, "norm": "pre"},
}


def windows(part):
    """A sine without noise, another phase in each series."""
    made = MadeSeries(count=4, steps=120, columns=1, noise=0.0, trend=0.0).read([], part)
    coded = [Coded(e.input, e.input, np.ones(len(e.input), dtype=bool)) for e in made]
    return [*Windows(coded, WINDOW, HORIZON)]


def shuffled(examples):
    order = np.random.default_rng(1).permutation(len(examples))
    return [one._replace(target=examples[i].target) for one, i in zip(examples, order)]


def error(model, examples):
    batch = collate(examples, True)
    with torch.no_grad():
        loss = model.eval().loss(batch)
    return float(loss.total) / loss.units


def learnt(kind, examples):
    torch.manual_seed(1)
    stem = {"kind": "features", "patch": 3}
    shape = {"kind": "forecaster", "stem": stem, "encoder": ENCODERS[kind], "window": WINDOW, "horizon": HORIZON}
    model = build_model({**shape, "width": 16, "layers": 1, "dropout": 0.0, "head": "flat"}, features=1).train()
    optimizer = torch.optim.Adam(model.parameters())
    pick = np.random.default_rng(2)
    for step in range(STEPS):
        loss = model.loss(collate([examples[i] for i in pick.integers(len(examples), size=32)], True))
        optimizer.zero_grad()
        (loss.total / loss.units).backward()
        for group in optimizer.param_groups:
            group["lr"] = 1e-2 * min(1, (STEPS - step) / 100)
        optimizer.step()
    return model


@pytest.mark.parametrize("kind", ENCODERS)
def test_waves_are_learnt_and_chance_is_not(kind):
    train, fresh = windows("train"), windows("test")
    copied = float(np.mean([(one.target - one.source[-1]) ** 2 for one in fresh]))
    assert error(learnt(kind, train), fresh) < 0.1 * copied
    deal = learnt(kind, shuffled(train))
    spread = float(np.var(np.concatenate([one.target for one in fresh])))
    assert error(deal, fresh) > 0.6 * spread  # no better than to say what is usual


@pytest.mark.parametrize("name", ["forecast-ett-linear", "forecast-ett-lstm"])
def test_a_tiny_form_does_not_reach_its_bound_on_futures_dealt_out(name, tmp_path, monkeypatch):
    recipe = read_recipe(name)
    monkeypatch.setattr(
        Forecaster, "epochs", lambda recipe, pair, examples: dealt(Forecaster.windows(recipe, pair, examples))
    )
    run = regard.train(tiny_form(recipe), "training.device=cpu", folder=tmp_path / "run", quiet=True)
    assert run.scores["mse"] > 2 * recipe.tiny["beats"]["mse"]


def dealt(examples):
    wrong = shuffled([*examples])
    return lambda epoch: wrong


def test_the_band_of_a_tiny_run_holds_four_of_five(tmp_path):
    recipe = tiny_form(read_recipe("forecast-ett-linear"))
    run = regard.train(
        recipe,
        "data.format.count=30",
        "training.device=cpu",
        "training.validate_every=150",
        folder=tmp_path / "run",
        quiet=True,
    )
    assert 75 < runs.test(run.folder)["coverage"] < 85
