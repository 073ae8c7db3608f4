"""A tagger from recipe to marked text: words and bases, long texts in pieces, every character in its place."""

import json
import random

import pytest
import torch

import regard
from regard.config import Recipe, apply_overrides
from regard.data.format._base import Example
from regard.data.format.made_names import MadeNames
from regard.errors import UserError
from regard.runs import test as run_test

COMMON = [
    "model.width=16",
    "model.encoder={kind = 'recurrent', cell = 'gru'}",
    "training.warmup=5",
    "training.schedule=cosine",
    "training.learning_rate=2e-2",
    "training.batch_examples=32",
    "training.validate_every=40",
    "training.save_every=40",
    "training.label_smoothing=0.0",
    "training.device=cpu",
]
NAMES = apply_overrides(
    Recipe(task="tag", name="names"),
    [*COMMON, "data.format={kind = 'made_names', count = 400}", "tokenizer.kind=word", "training.steps=80"],
)
DNA = apply_overrides(
    Recipe(task="tag", name="dna"),
    [
        *COMMON,
        "data.format={kind = 'made_dna', mark = true, motif = 'TATA', length = 20, count = 400}",
        "tokenizer={kind = 'letters', alphabet = 'ACGT'}",
        "model.kind=crf_tagger",
        "training.steps=120",
    ],
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return regard.train(NAMES, folder=tmp_path_factory.mktemp("run") / "names", quiet=True)


@pytest.fixture(scope="module")
def task(run):
    return run.model


@pytest.fixture(scope="module")
def dna(tmp_path_factory):
    return regard.train(DNA, folder=tmp_path_factory.mktemp("run") / "dna", quiet=True).model


def test_it_learns_and_marks_the_text_itself(run, task):
    assert list(run.scores) == ["f1", "precision", "recall", "accuracy", "loss"] and run.scores["f1"] > 90
    assert run_test(run.folder)["f1"] > 90
    text = "Yesterday, Harry Potter met  Hermione Granger."
    (found,) = task.tag([text])
    assert str(found) == "Yesterday, [person Harry Potter] met  [person Hermione Granger]."
    assert found.words == ["Yesterday", ",", "Harry", "Potter", "met", "Hermione", "Granger", "."]
    assert found.tags == ["O", "O", "B-person", "I-person", "O", "B-person", "I-person", "O"]
    assert len(found.probabilities) == 8 and all(0 < p <= 1 for p in found.probabilities)
    first, second = found.spans
    assert (first.kind, first.text, first.start, first.stop) == ("person", "Harry Potter", 11, 23)
    assert text[second.start : second.stop] == second.text == "Hermione Granger"
    assert first.probability == min(found.probabilities[2:4])


def test_words_that_are_cut_already(task):
    words = ["Yesterday", ",", "Ada", "met", "Alan", "Turing", "."]
    (found,) = task.tag([words])
    assert found.words == words and found.text == "Yesterday , Ada met Alan Turing ."
    assert str(found) == "Yesterday , [person Ada] met [person Alan Turing] ."


def test_neighbours_and_length_do_not_change_an_answer(task):
    pick = random.Random(3)
    sentences = [example.input for example in MadeNames(60, seed=5).read([], "test")]
    together = task.tag(sentences)
    for words, one in zip(sentences, together, strict=True):
        (alone,) = task.tag([words])
        assert alone.tags == one.tags and alone.probabilities == pytest.approx(one.probabilities, abs=1e-4)
    long = [word for words in pick.sample(sentences, 20) for word in words] * 5
    (found,) = task.tag([long])
    assert len(found.tags) == len(found.probabilities) == len(long) > 3 * task.recipe.data.max_length
    assert found.text == " ".join(long)
    for span in found.spans:
        assert found.text[span.start : span.stop] == span.text


def test_long_sentences_are_learnt_and_judged_whole(task):
    examples = MadeNames(30).read([], "train")
    words, tags = [w for e in examples for w in e.input], [t for e in examples for t in e.target]
    whole = Example(words, tags)
    pieces = task.pieces(task.recipe, task.pair, [whole])
    assert (
        len(pieces) > 1
        and [w for e in pieces for w in e.input] == words
        and [t for e in pieces for t in e.target] == tags
    )
    for example in pieces:
        coded = task.coded(task.recipe, task.pair, example)
        assert len(coded.source) <= task.recipe.data.max_length and coded.target_mask.sum() == len(example.target)
    assert task.judge([whole]).scores["f1"] > 80
    (sample,) = task.judge([whole]).samples
    assert sample[0] == " ".join(words) and "[person" in sample[1] and "[location" in sample[2]


def test_one_word_of_more_tokens_than_allowed_keeps_its_tag(task):
    endless = "-".join(["Ada"] * 200)
    (found,) = task.tag([["I", "asked", endless, "to", "call"]])
    assert len(found.tags) == 5 and found.tags[-1] == "O"
    coded = task.coded(task.recipe, task.pair, Example([endless], ["O"]))
    assert len(coded.source) == task.recipe.data.max_length and coded.target_mask.tolist() == [True]


def test_nothing_to_tag(task):
    assert task.tag([]) == []
    (found,) = task.tag([""])
    assert (found.words, found.tags, found.spans, str(found)) == ([], [], [], "")
    blank, real = task.tag([" \n", "Ada"])
    assert str(blank) == " \n" and real.words == ["Ada"]


def test_dna_comes_back_with_the_marked_base_in_brackets(dna):
    sequence = "gcgcgTATAcgcgcgcgcga"
    (found,) = dna.tag([sequence])
    assert str(found) == "gcgcg[site T]ATAcgcgcgcgcga"
    assert found.words == list(sequence) and found.spans[0].start == 5
    (grouped,) = dna.tag(["gcgcgTATAc gcgcgcgcga"])
    assert str(grouped) == "gcgcg[site T]ATAc gcgcgcgcga" and grouped.tags == found.tags
    (letters,) = dna.tag([list(sequence)])
    assert letters.text == sequence and letters.tags == found.tags


def test_mistakes_are_one_line(task, dna, tmp_path):
    with pytest.raises(UserError, match="letter 'x' at place 7 is not in the alphabet; allowed are A, C, G, T"):
        dna.tag(["ACGT ACGT", "ACG ACxT"])
    with pytest.raises(UserError, match="label 'B-planet' was never seen"):
        task.judge([Example(["Mars"], ["B-planet"])])
    with pytest.raises(UserError, match="this model is made to tag, not to classify"):
        folder = tmp_path / "m"
        folder.mkdir()
        regard.train(NAMES, "training.steps=1", folder=folder / "run", quiet=True)
        regard.load(folder / "run", task="classify")
    with pytest.raises(UserError, match="a tagger needs 2"):
        (tmp_path / "a.conll").write_text("a\tO\n\nb\tO\n\nc\tO\n")
        regard.train(
            NAMES, "data.format={kind = 'conll'}", f"data.train={tmp_path}/a.conll", folder=tmp_path / "n", quiet=True
        )


def test_a_stopped_run_goes_on_to_the_bit(tmp_path):
    """With dropout of words, drawn by torch's generator."""
    recipe = apply_overrides(NAMES, ["training.steps=20", "training.save_every=5", "model.stem={word_dropout = 0.3}"])
    whole = regard.train(recipe, folder=tmp_path / "a", quiet=True)
    weights = (whole.folder / "model" / "weights.safetensors").read_bytes()
    for checkpoint in sorted((whole.folder / "checkpoints").iterdir())[-2:]:
        for file in checkpoint.iterdir():
            file.unlink()
        checkpoint.rmdir()
    regard.train(folder=tmp_path / "a", resume=True, quiet=True)
    assert (whole.folder / "model" / "weights.safetensors").read_bytes() == weights


def test_what_is_saved_is_enough(run, task, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in (run.folder / "model").iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    again = regard.load(copy)
    assert again.tag(["Ada lives in Paris now ."]) == task.tag(["Ada lives in Paris now ."])
    assert json.loads((copy / "labels.json").read_text())["names"] == task.names


def test_it_can_be_watched(task):
    with regard.capture(task.model) as seen:
        task.tag(["Ada met Alan"])
    assert seen and all(torch.isfinite(t).all() for calls in seen.values() for t in calls)
