"""The laws of tasks. Every file in task is found and held to them, with a tiny model of the first recipe for it."""

import dataclasses
import io
import math

import numpy as np
import pytest
import torch

import regard
from regard import registry
from regard.errors import UserError
from regard.loading import model_files
from regard.storage import write_folder
from tests.contracts.tasks import KINDS, RECIPES, Tasks


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    return Tasks(tmp_path_factory.mktemp("tasks"))


@pytest.fixture(params=KINDS)
def name(request):
    return request.param


@pytest.fixture
def task(name, tasks):
    return tasks(name)[0]


@pytest.fixture
def use(name, task):
    return getattr(task, name)


@pytest.fixture
def valid(name, tasks):
    return tasks(name)[2]


@pytest.fixture
def inputs(task, valid):
    return task.inputs(valid)[:4]


def same(one, other, tolerance=0.0):
    """Equal results, whatever they are made of; numbers up to a tolerance."""
    if isinstance(one, torch.Tensor):
        one, other = one.numpy(), other.numpy()
    if isinstance(one, np.ndarray | float):
        return np.shape(one) == np.shape(other) and np.allclose(one, other, tolerance, tolerance, equal_nan=True)
    if dataclasses.is_dataclass(one):
        one, other = vars(one), vars(other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key], tolerance) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(same(*pair, tolerance) for pair in zip(one, other))
    return one == other


def test_every_task_has_a_recipe_and_a_command():
    assert sorted(RECIPES) == KINDS == [name for name in KINDS if registry.is_kind("cli", name)]


def test_it_is_what_it_says(name, task):
    offered = dir(task)
    assert name in offered and {"device", "judge", "model", "recipe"} <= set(offered)
    assert all(getattr(task, one) is not None for one in offered)
    hidden = {"prepare", "resolve", "codec", "epochs", "fit", "usual", "write", "written", "inputs"}
    assert not hidden & set(offered)
    assert not any(one.startswith("_") for one in offered) and len(offered) < 12
    assert task.usage.startswith(name) and "{model}" in task.usage and task.unit


def test_one_gives_one_and_many_give_a_list(use, inputs):
    one = use(inputs[0])
    assert not isinstance(one, list)
    for many in (inputs[:2], tuple(inputs[:2]), iter(inputs[:2])):
        found = use(many)
        assert isinstance(found, list) and len(found) == 2 and type(found[0]) is type(one)
    assert same(use(inputs[:1]), [one])
    assert use([]) == [] and use(()) == []


def test_alone_as_among_others(use, inputs):
    """Whatever their lengths, and in any order; what comes back is in the order of what was given."""
    alone = [use(one) for one in inputs]
    assert same(use(inputs), alone, 1e-4)
    assert same(use(inputs[::-1]), alone[::-1], 1e-4)


def test_the_same_every_time_and_inputs_stay_as_they_were(use, task, valid, inputs):
    first = use(inputs)
    assert same(use(inputs), first)
    assert same(task.inputs(valid)[: len(inputs)], inputs)


def test_saved_and_loaded_it_answers_the_same(name, tasks, inputs, tmp_path):
    task, codec, valid = tasks(name)
    weights = dict(task.model.named_parameters())
    write_folder(tmp_path / "model", model_files(task.recipe, codec, weights, "float32"))
    loaded = regard.load(tmp_path / "model", device="cpu")
    assert type(loaded) is type(task)
    assert same(getattr(loaded, name)(inputs), getattr(task, name)(inputs), 1e-4)
    assert same(loaded.judge(valid).scores, task.judge(valid).scores, 1e-3)


def test_its_scores_are_declared_finite_and_the_same_every_time(name, task, valid):
    found = task.judge(valid)
    assert found.scores and set(found.scores) <= set(task.scores)
    assert all(type(score) is float and math.isfinite(score) for score in found.scores.values())
    assert task.judge(valid).scores == found.scores
    assert len(found.samples) <= task.recipe.training.samples
    assert all(isinstance(text, str) for sample in found.samples for text in sample)


@pytest.mark.parametrize(
    "wrong", [None, 7, 1.5, object(), {"a": "text"}, io.StringIO("a text")], ids=lambda wrong: type(wrong).__name__
)
def test_what_is_no_input_is_refused_in_one_line(use, inputs, wrong):
    with pytest.raises(UserError, match=r"^this model takes a \w+.*; not .*") as refused:
        use(wrong)
    assert "\n" not in str(refused.value)
    with pytest.raises(UserError, match="^input 2: this model takes"):
        use([inputs[0], wrong])
