"""Forecasting as a task, on a model whose answer is known: with a head of zeros it copies the last value."""

import json
import math

import numpy as np
import pytest
import torch

import regard
from regard import runs
from regard.assemble import build_model, resolve_model
from regard.config import Recipe, apply_overrides, read_recipe, shipped_recipes, tiny_form
from regard.data.codec import Pair
from regard.data.format._base import Example
from regard.data.format._series import Span
from regard.data.input.series import Series
from regard.data.splitting import read_parts
from regard.data.target.future import Future
from regard.errors import UserError
from regard.runs import resolve
from regard.task.forecast import Forecaster

WINDOW, HORIZON = 3, 2


def copier(columns=("a", "b"), mean=(10.0, 0.0), spread=(2.0, 1.0), steps=(2.0, 1.0), band=None, drift=0.0):
    """Forecasts the last value, plus `drift` (scaled)."""
    shape = resolve_model(
        {"kind": "forecaster", "stem": "features", "encoder": "none", "window": WINDOW, "horizon": HORIZON, "width": 4}
    )
    model = build_model(shape, features=len(columns))
    torch.nn.init.zeros_(model.head.weight)
    torch.nn.init.constant_(model.head.bias, drift)
    pair = Pair(Series(mean, spread, columns), Future(steps, band))
    return Forecaster(Recipe(task="forecast", model=shape), pair, model, torch.device("cpu"))


def series(*rows):
    return np.array(rows, dtype=np.float32)


WALK = series([0, 5], [2, 5], [4, 5], [6, 5], [8, 5], [10, 5])
"""Two more at every step, and five for ever."""


def test_the_scores_by_hand():
    """Two windows; the first column is copied 2 and 4 too low, 1 and 2 spreads of it; the second is right."""
    scores = copier().judge([Example(WALK, Span(0, ("a", "b")))]).scores
    assert scores == {
        "mse": (1 + 4 + 0 + 0) / 4,
        "mae": (1 + 2) / 4,
        "naive_mse": 1.25,
        "naive_mae": 0.75,
        "mase": (1 + 2) / 4,
    }
    assert next(iter(scores)) == "mse"  # the best checkpoint is chosen by it


def test_what_is_better_than_to_copy_is_seen_to_be():
    scores = copier(drift=1.0).judge([Example(WALK[:, :1].repeat(2, 1), Span(0, ("a", "b")))]).scores
    assert scores["naive_mse"] != scores["mse"]
    one = copier(("a",), (0.0,), (2.0,), (2.0,), drift=1.5).judge([Example(WALK[:, :1], Span(0, ("a",)))]).scores
    assert one["mse"] == 0.25 and one["naive_mse"] == 2.5


def test_a_single_column_is_judged_in_its_own_units():
    examples = [Example(WALK[:, :1], Span(0, ("a",)))]
    scores = copier(("a",), (10.0,), (2.0,), (2.0,)).judge(examples).scores
    assert scores["mae_in_units"] == 3 and scores["mae"] == 1.5 and scores["mase"] == 1.5
    wanted = [(6, 2), (8, 4), (8, 2), (10, 4)]  # what happened, and how far off
    assert scores["percent"] == pytest.approx(sum(100 * off / value for value, off in wanted) / 4)
    below = [Example(WALK[:, :1] - 9, Span(0, ("a",)))]
    assert "percent" not in copier(("a",), (10.0,), (2.0,), (2.0,)).judge(below).scores


def test_only_what_follows_the_border_is_judged():
    jump = series([0], [0], [0], [0], [0], [9], [9])
    task = copier(("a",), (0.0,), (1.0,), (1.0,))
    assert task.judge([Example(jump[:5], Span(0, ("a",)))]).scores["mse"] == 0
    assert task.judge([Example(jump, Span(5, ("a",)))]).scores["mse"] == 81
    with pytest.raises(UserError, match="no window to judge"):
        task.judge([Example(jump, Span(6, ("a",)))])


def test_the_last_incomplete_batch_counts(monkeypatch):
    noise = np.random.default_rng(1).standard_normal((40, 2)).astype(np.float32)
    examples = [Example(noise, Span(0, ("a", "b")))]
    whole = copier().judge(examples).scores
    monkeypatch.setattr("regard.task.forecast.TOGETHER", 7)  # 36 windows: five times 7, and one
    assert copier().judge(examples).scores == pytest.approx(whole)
    assert copier().loss(examples) == pytest.approx(whole["mse"])


def test_a_forecast_in_the_units_of_the_series():
    notes = []
    found = copier(drift=0.5).forecast(WALK, note=notes.append)
    assert found.values.tolist() == [[11.0, 5.5]] * 2 and found.columns == ["a", "b"]
    assert np.isnan(found.low).all() and np.isnan(found.high).all()  # nothing is known of its errors
    assert len(notes) == 1 and "not measured" in notes[0]


def test_shorter_is_cut_and_longer_feeds_itself():
    task, notes = copier(drift=0.5, band=np.array([[1.0, 2.0], [3.0, 4.0]])), []
    assert task.forecast(WALK, 1, notes.append).values.tolist() == [[11.0, 5.5]] and not notes
    found = task.forecast(WALK, 5, notes.append)
    assert found.values[:, 0].tolist() == [11, 11, 12, 12, 13]
    assert len(notes) == 1 and "2 steps" in notes[0]
    assert found.low[:2].tolist() == [[9.0, 3.5], [5.0, 1.5]] and found.high[:2].tolist() == [[13.0, 7.5], [17.0, 9.5]]
    assert np.isnan(found.low[2:]).all() and np.isnan(found.high[2:]).all()  # not measured so far ahead


def test_only_the_last_window_is_looked_at():
    longer = np.concatenate([series([99, -99]), WALK])
    assert np.array_equal(copier().forecast(longer).values, copier().forecast(WALK).values)


def test_what_cannot_be_forecast():
    for given, horizon, message in [
        (WALK[:2], None, "2 rows is too short: the model looks at the last 3"),
        (WALK[:, :1], None, "steps of 2 numbers"),
        (np.where(WALK == 8, np.nan, WALK), None, "hole"),
        (WALK, 0, "horizon of 0"),
        (WALK, 10**6, "horizon of 1000000"),
    ]:
        with pytest.raises(UserError, match=message):
            copier().forecast(given, horizon)


def test_the_band_is_that_of_the_errors_made():
    random = np.random.default_rng(2)
    walk = np.cumsum(random.standard_normal((3000, 1)), 0).astype(np.float32)
    task = copier(("a",), (0.0,), (1.0,), (1.0,))
    assert task.learn_errors([Example(walk, Span(0, ("a",)))])
    # 1.2816 spreads to both sides hold four of five of a normal distribution; two steps spread by the root of two.
    np.testing.assert_allclose(task.future.band[:, 0], [1.2816, 1.2816 * math.sqrt(2)], rtol=0.05)
    fresh = np.cumsum(random.standard_normal((3000, 1)), 0).astype(np.float32)
    assert 77 < task.judge([Example(fresh, Span(0, ("a",)))]).scores["coverage"] < 83


def test_a_band_of_many_errors_is_learnt_from_some_spread_evenly(monkeypatch):
    walk = np.cumsum(np.random.default_rng(2).standard_normal((3000, 1)), 0).astype(np.float32)
    tasks = [copier(("a",), (0.0,), (1.0,), (1.0,)) for _ in range(2)]
    tasks[0].learn_errors([Example(walk, Span(0, ("a",)))])
    monkeypatch.setattr("regard.task.forecast.MOST_ERRORS", 1000)
    kept = []
    monkeypatch.setattr(Future, "learn", lambda self, errors: kept.append(errors))
    tasks[1].learn_errors([Example(walk, Span(0, ("a",)))])
    assert 400 < len(kept[0]) <= 500
    band = np.quantile(np.abs(kept[0]), 0.8, axis=0)
    np.testing.assert_allclose(band, tasks[0].future.band, rtol=0.15)


# ------------------------------------------------------------------------------------------------- from a file to a run


@pytest.fixture
def table(tmp_path):
    times = np.arange(120)
    lines = [f"{n},{10 + 3 * math.sin(n / 2):.4f},{5 + math.cos(n / 2):.4f}" for n in times]
    path = tmp_path / "waves.csv"
    path.write_text("\n".join(["hour,high,low", *lines]) + "\n")
    return path


SHORT = ["model.window=12", "model.horizon=4", "model.stem.patch=3", "model.width=8", "training.steps=30"]
SHORT += ["training.validate_every=10", "training.save_every=10", "training.device=cpu"]


def recipe(table, *more):
    given = apply_overrides(read_recipe("forecast-ett-lstm"), SHORT)
    given.data.train, given.data.format = [str(table)], {"kind": "table"}
    return apply_overrides(given, more)


def test_one_file_is_cut_by_time_and_its_columns_are_remembered(table, tmp_path):
    run = regard.train(recipe(table), folder=tmp_path / "run", quiet=True)
    task = run.model
    assert task.columns == ["high", "low"] and {"mse", "naive_mse"} <= run.scores.keys()
    scale = json.loads((run.folder / "model" / "input.json").read_bytes())
    rows = np.loadtxt(table, delimiter=",", skiprows=1)[:84, 1:]  # seven of ten, and nothing of what comes later
    np.testing.assert_allclose(scale["mean"], rows.mean(0), rtol=1e-5)
    np.testing.assert_allclose(scale["spread"], rows.std(0), rtol=1e-5)
    assert task.future.band.shape == (4, 2)
    scores = runs.test(run.folder)
    assert scores.keys() > run.scores.keys() and "coverage" in scores
    past = task.series.read(str(table))
    assert task.forecast(past, 3).values.shape == (3, 2)
    # A finished model knows its own errors, not those of a step on the way.
    known, task.future.band = task.future.band, None
    task.learn_errors(read_parts(resolve(recipe(table)).data).valid)
    np.testing.assert_allclose(task.future.band, known, rtol=1e-4)


def test_what_does_not_fit_is_refused_before_anything_is_written(table, tmp_path):
    for more, message in [
        ("model.window=200", "data.train: 84 rows to forecast of 84; a window of 200"),
        ("model.horizon=13", "data.valid: 12 rows to forecast of 96"),
        ("data.folds=3", "cut by time"),
        ("data.format.borders=[100, 10, 20]", "asks for 130"),
        ("model.head=lest", "no 'lest'"),
    ]:
        with pytest.raises(UserError, match=message):
            regard.train(recipe(table, more), folder=tmp_path / "run", quiet=True)
        assert not (tmp_path / "run").exists()


RECIPES = [name for name in shipped_recipes() if name.startswith("forecast-")]


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_and_its_tiny_form_can_be_built(name):
    full, tiny = read_recipe(name), resolve(tiny_form(read_recipe(name)))
    assert build_model({**Forecaster.usual, **full.model}, features=7).horizon == full.model["horizon"]
    assert tiny.input["columns"] and tiny.model["horizon"] == 12


def test_the_forecasters_of_ett_are_compared_on_equal_terms():
    same = [
        (r.data.train, r.data.format, r.model["window"], r.model["horizon"], r.model["centre"])
        for r in map(read_recipe, RECIPES)
        if r.name.startswith("forecast-ett")
    ]
    assert len(same) >= 4 and all(one == same[0] for one in same)
