"""A captioner from pixels to sentences: scores are probabilities, attention is a distribution over the image."""

import json
import shutil

import numpy as np
import pytest

import regard
from regard.config import read_recipe, tiny_form
from regard.data.format._base import Example
from regard.data.splitting import read_parts
from regard.errors import UserError
from tests.task.shuffled import shuffle_targets
from tests.task.writers import inputs, looks_are_shares, neighbours_do_not_matter, scores_are_probabilities, tiny

NAMES = ("caption-attention", "caption-transformer")
SHORT = ("training.steps=60", "training.validate_every=60", "data.valid_limit=40")


@pytest.fixture(scope="module", params=NAMES)
def run(request, tmp_path_factory):
    """Half trained: it is unsure, so that probabilities are not all near one."""
    return tiny(request.param, *SHORT, folder=tmp_path_factory.mktemp("run") / "run")


def test_neighbours_do_not_change_an_answer(run, monkeypatch):
    neighbours_do_not_matter(run.model, inputs(NAMES[0]), monkeypatch)


def test_scores_are_probabilities(run):
    scores_are_probabilities(run.model, inputs(NAMES[0], 6))


def test_it_says_where_it_looked(run):
    task = run.model
    rows, columns = task.model.stem.grid
    looks_are_shares(task, inputs(NAMES[0], 1)[0], rows * columns)


def test_saved_and_loaded_it_is_the_same(run, tmp_path):
    shutil.copytree(run.folder / "model", tmp_path / "elsewhere")
    task = regard.load(tmp_path / "elsewhere", task="caption")
    valid = read_parts(tiny_form(read_recipe(NAMES[0])).data).valid[:40]
    assert task.judge(valid).scores == pytest.approx(run.scores, abs=1e-4)
    pictures = inputs(NAMES[0], 4)
    assert list(map(str, task.caption(pictures))) == list(map(str, run.model.caption(pictures)))


def test_a_picture_of_another_size_is_read_too(run):
    picture = inputs(NAMES[0], 1)[0]
    large = picture.repeat(3, axis=0).repeat(3, axis=1)
    grey = np.full((40, 60, 1), 90, np.uint8)
    found = run.model.caption([large, picture, grey])
    assert all(one.text for one in found)


def test_with_captions_shuffled_it_does_not_reach_what_must_be_beaten(tmp_path, monkeypatch):
    shuffle_targets(monkeypatch)
    run = tiny(NAMES[0], folder=tmp_path / "run")
    assert run.scores["bleu4"] < read_recipe(NAMES[0]).tiny["beats"]["bleu4"]


def test_all_captions_of_a_picture_count(run):
    task = run.model
    picture = inputs(NAMES[0], 1)[0]
    said = task.caption([picture])[0].text
    scores = task.judge([Example(picture, ["something else entirely here", said])]).scores
    assert list(scores)[0] == "bleu4" and scores["bleu4"] == pytest.approx(100)
    assert task.judge([Example(picture, "something else entirely here")]).scores["bleu4"] < 50


def test_the_limit_of_length_is_the_decoders(tmp_path):
    """A caption longer than the recipe allows is cut, and what is written never outgrows learned positions."""
    position = "model.decoder={kind = 'transformer', layers = 1, position = {kind = 'learned', length = 8}}"
    run = tiny(NAMES[1], *SHORT, "training.steps=2", "data.max_length=4", position, folder=tmp_path / "run")
    task = run.model
    pictures = inputs(NAMES[0], 8)
    assert max(len(one.ids) for one in task.caption(pictures, max_length=50, beam=1)) <= 8
    example = Example(pictures[0], "there is a red circle on the left")
    coded = task.coded(task.recipe, task.pair, example)
    assert len(coded.target) == len(coded.target_mask) == 5 and task.loss([example]) > 0


def test_what_has_no_attention_says_so(tmp_path):
    run = tiny(NAMES[0], *SHORT, "training.steps=1", "model.decoder={kind = 'recurrent'}", folder=tmp_path / "run")
    with pytest.raises(UserError, match="no attention"):
        run.model.attention(inputs(NAMES[0], 1)[0], [5, 6])


@pytest.mark.parametrize("options", [{"beam": 0}, {"n_best": 1001}, {"max_length": 0}, {"length_penalty": 11.0}])
def test_options_out_of_range_are_refused(run, options):
    with pytest.raises(UserError):
        run.model.caption(inputs(NAMES[0], 1), **options)


def test_nothing_in_nothing_out(run):
    assert run.model.caption([]) == []


def test_what_is_written_can_be_longer_than_usual(run, monkeypatch):
    """A caller's limit counts, also where it is above the recipe's."""
    task = run.model
    monkeypatch.setattr(task.recipe.decoding, "max_length", 2)
    one = task.caption(inputs(NAMES[0], 1), max_length=30)[0]
    assert len(one.ids) > 2 and one.finished


def test_the_model_folder_is_complete(run):
    saved = json.loads((run.folder / "model" / "input.json").read_text())
    assert saved["size"] == 16 and len(saved["mean"]) == 3
