"""A tracker from frames to positions, also while the object is hidden."""

import shutil

import numpy as np
import pytest
import torch

import regard
from regard.assemble import build_model
from regard.config import read_recipe, tiny_form
from regard.data.examples import Coded, collate
from regard.data.format._base import Example
from regard.data.splitting import read_parts
from regard.task.track import distance
from tests.task.shuffled import shuffle_targets
from tests.task.writers import tiny

NAME = "track-clips"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return tiny(NAME, folder=tmp_path_factory.mktemp("run") / "run")


@pytest.fixture(scope="module")
def examples():
    return read_parts(tiny_form(read_recipe(NAME)).data).test[:150]


def test_it_beats_who_repeats_the_frame_before(run, examples):
    scores = run.model.judge(examples).scores
    assert list(scores)[0] == "error" and scores["error"] < 0.85 * scores["copy_error"]


def hidden_and_seen(example):
    """Which frames show nothing of the disc, and which all of it. The bar is where a column is always bright."""
    columns = np.flatnonzero(example.input.mean((0, 1, 3)) > 200)
    bar = (columns.mean() + 0.5) / example.input.shape[2]
    away = np.abs(example.target[:, 0] - bar)
    return away < 0.08, away > 0.32


def test_it_is_less_sure_where_the_disc_is_hidden(run, examples):
    tracks = run.model.track([example.input for example in examples])
    spreads, errors = {"hidden": [], "seen": []}, {"hidden": [], "seen": []}
    for example, track in zip(examples, tracks, strict=True):
        off = np.linalg.norm(np.array(track.places) - example.target, axis=1)
        for name, where in zip(spreads, hidden_and_seen(example)):
            spreads[name] += np.array(track.spreads)[where].tolist()
            errors[name] += off[where].tolist()
    assert min(len(found) for found in spreads.values()) > 100
    assert np.mean(spreads["hidden"]) > 1.5 * np.mean(spreads["seen"])
    for name, found in spreads.items():  # a spread is how far off it is on average
        assert np.mean(errors[name]) == pytest.approx(np.mean(found), rel=0.35), name


def test_neighbours_do_not_change_an_answer(run, examples, monkeypatch):
    task = run.model
    clips = [example.input for example in examples[:20]]
    assert len({len(clip) for clip in clips}) > 1
    together = task.track(clips)
    monkeypatch.setattr(task.recipe.training, "batch_examples", 3)
    finished = []
    for clip, one, again in zip(clips, together, task.track(clips, finished.append), strict=True):
        assert len(one.places) == len(one.spreads) == len(clip)
        for other in (task.track([clip])[0], again):
            assert np.array(other.places) == pytest.approx(np.array(one.places), abs=1e-5)
            assert other.spreads == pytest.approx(one.spreads, abs=1e-5)
    assert sum(finished) == 20


def test_the_past_alone_counts(run, examples):
    """It follows as it goes: what comes later changes nothing."""
    task, clip = run.model, examples[0].input
    assert np.array(task.track([clip[:5]])[0].places) == pytest.approx(
        np.array(task.track([clip])[0].places[:5]), abs=1e-5
    )


def test_saved_and_loaded_it_is_the_same(run, tmp_path):
    shutil.copytree(run.folder / "model", tmp_path / "elsewhere")
    task = regard.load(tmp_path / "elsewhere", task="track")
    valid = read_parts(task_data()).valid[:300]
    assert task.judge(valid).scores == pytest.approx(run.scores, abs=1e-4)


def task_data():
    return tiny_form(read_recipe(NAME)).data


@pytest.mark.slow  # that of captions runs every time
def test_with_tracks_shuffled_it_does_not_reach_what_must_be_beaten(tmp_path, monkeypatch):
    """Targets of other clips of one length: only as long as its frames is a track a target at all."""
    shuffle_targets(monkeypatch)
    form = "data.format={kind = 'made_clips', target = 'track', count = 1000, size = 16, shortest = 14, longest = 14}"
    run = tiny(NAME, form, "training.steps=250", "training.validate_every=250", folder=tmp_path / "run")
    assert run.scores["error"] > 2 * read_recipe(NAME).tiny["beats"]["error"]


def test_the_loss_by_hand():
    torch.manual_seed(3)
    model = build_model(tiny_form(read_recipe(NAME)).model | {"kind": "tracker"}, channels=1, size=16).eval()
    random = np.random.default_rng(1)
    coded = [
        Coded(
            random.standard_normal((length, 1, 16, 16)).astype(np.float32),
            random.random((length, 2)).astype(np.float32),
            np.arange(length) != 1,
        )
        for length in (3, 5)
    ]
    batch = collate(coded, varying=True)
    found = model.loss(batch)
    by_hand = 0.0
    with torch.inference_mode():
        for one in coded:
            places, spreads = model(
                torch.from_numpy(one.source)[None], torch.ones(1, len(one.source), dtype=torch.bool)
            )
            for place, spread, target, wanted in zip(places[0], spreads[0], one.target, one.target_mask):
                if wanted:
                    off = float(np.hypot(*(place.numpy() - target)))
                    by_hand += 2 * off / float(spread) + 2 * np.log(float(spread))
    assert found.units == 6 and found.total.item() == pytest.approx(by_hand, rel=1e-4)


def test_what_is_expected_is_the_mean():
    """p(y) ~ exp(-2 |y| / s) / s^2 is a density of the plane up to a constant for all s, and |y| is s on average."""
    radius = np.linspace(0, 20, 200_001)
    for spread in (0.3, 1.0):
        ring = 2 * np.pi * radius * np.exp(-2 * radius / spread) / spread**2
        assert np.trapezoid(ring, radius) == pytest.approx(np.pi / 2, rel=1e-4)
        assert np.trapezoid(radius * ring, radius) / np.trapezoid(ring, radius) == pytest.approx(spread, rel=1e-4)


def test_a_place_that_is_just_right_has_a_gradient():
    """The distance has none at zero; the step there must be no step, and not NaN."""
    torch.manual_seed(3)
    model = build_model(tiny_form(read_recipe(NAME)).model | {"kind": "tracker"}, channels=1, size=16)
    clip = np.zeros((2, 1, 16, 16), np.float32)
    with torch.no_grad():
        model.head.weight.zero_()
    batch = collate([Coded(clip, np.full((2, 2), 0.5, np.float32), np.ones(2, dtype=bool))], varying=True)
    model.loss(batch).total.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_distances_by_hand():
    given = [np.array([[0.0, 0.0], [0.3, 0.4]]), np.array([[1.0, 1.0]])]
    wanted = [np.zeros((2, 2)), np.array([[1.0, 0.0]])]
    assert distance(given, wanted) == pytest.approx(100 * (0 + 0.5 + 1) / 3)


def test_the_baseline_repeats_where_it_was(run):
    clip = np.zeros((3, 16, 16, 1), np.uint8)
    places = np.array([[0.2, 0.5], [0.3, 0.5], [0.3, 0.6]], np.float32)
    assert run.model.judge([Example(clip, places)]).scores["copy_error"] == pytest.approx(100 * (0 + 0.1 + 0.1) / 3)
