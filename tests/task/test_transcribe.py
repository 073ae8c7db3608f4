"""A transcriber from samples to words: scores are probabilities, attention is a distribution over the sound."""

import shutil

import pytest
import torch

import regard
from regard.config import read_recipe, tiny_form
from regard.data.format._base import Example
from regard.data.input.sound import Sound, resampled
from regard.data.splitting import read_parts
from regard.types import END
from tests.task.shuffled import shuffle_targets
from tests.task.writers import inputs, looks_are_shares, neighbours_do_not_matter, scores_are_probabilities, tiny

NAME = "speech-strings"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    short = ("training.steps=100", "training.validate_every=100", "training.save_every=100", "data.valid_limit=40")
    return tiny(NAME, *short, folder=tmp_path_factory.mktemp("run") / "run")


def test_neighbours_of_other_lengths_do_not_change_an_answer(run, monkeypatch):
    sounds = inputs(NAME)
    assert len({len(sound.samples) for sound in sounds}) > 5
    neighbours_do_not_matter(run.model, sounds, monkeypatch)


def test_scores_are_probabilities(run):
    scores_are_probabilities(run.model, inputs(NAME, 6))


def test_it_says_where_it_listened(run):
    task = run.model
    sound = inputs(NAME, 1)[0]
    samples = len(sound.samples)
    window, hop = task.model.stem.window, task.model.stem.hop
    frames = 1 + max(0, -(-(samples - window) // hop))
    for convolution in task.model.stem.convolutions:
        frames = -(-frames // convolution.stride[0])
    looks_are_shares(task, sound, frames)


def test_saved_and_loaded_it_is_the_same(run, tmp_path):
    shutil.copytree(run.folder / "model", tmp_path / "elsewhere")
    task = regard.load(tmp_path / "elsewhere", task="transcribe")
    valid = read_parts(tiny_form(read_recipe(NAME)).data).valid[:40]
    assert task.judge(valid).scores == pytest.approx(run.scores, abs=1e-4)


def test_a_recording_at_another_rate_says_the_same(run):
    sounds = inputs(NAME, 8)
    fast = [Sound(resampled(sound.samples, sound.rate, 22050), 22050) for sound in sounds]
    texts = list(map(str, run.model.transcribe(sounds)))
    assert list(map(str, run.model.transcribe(fast))) == texts and len(set(texts)) > 3


def test_one_sample_is_a_recording_too(run):
    sound = inputs(NAME, 1)[0]
    assert len(run.model.transcribe([Sound(sound.samples[:1], sound.rate), sound])) == 2


def test_the_same_word_may_come_often_but_not_for_ever(run, monkeypatch):
    """More often than in a sentence: people do say "three three three three"."""
    task = run.model

    def stammering(hidden):
        logits = torch.zeros(*hidden.shape[:2], len(task.tokenizer))
        logits[..., 4], logits[..., END] = 9.0, -9.0
        return logits

    monkeypatch.setattr(task.model.decoder, "project", stammering)
    ids = task.transcribe(inputs(NAME, 1), beam=1, max_length=50)[0].ids
    assert ids[:20] == [4] * 20 and ids[20] != 4


@pytest.mark.slow  # that of captions runs every time
def test_with_transcripts_shuffled_it_does_not_reach_what_must_be_beaten(tmp_path, monkeypatch):
    shuffle_targets(monkeypatch)
    run = tiny(NAME, folder=tmp_path / "run")
    assert run.scores["wer"] > 1.5 * read_recipe(NAME).tiny["beats"]["wer"]


def test_judged_by_hand(run):
    task = run.model
    sound = inputs(NAME, 1)[0]
    said = task.transcribe([sound])[0].text
    assert task.judge([Example(sound, said)]).scores["wer"] == 0
    scores = task.judge([Example(sound, said), Example(sound, f"{said} and more words")]).scores
    words = len(said.split())
    assert scores["wer"] == pytest.approx(100 * 3 / (2 * words + 3)) and scores["wrong"] == 50
