"""A masked language model from a recipe to filled blanks, and on to another task."""

import random
from dataclasses import replace

import pytest
import torch

import regard
from regard.config import Recipe, apply_overrides
from regard.data.codec import Pair
from regard.data.format._base import Example
from regard.data.input.text import Text
from regard.data.target.masked import Masked
from regard.data.tokenizer.subword import Subword
from regard.errors import UserError
from regard.runs import test as run_test
from regard.storage import read_folder
from regard.types import UNKNOWN

RECIPE = apply_overrides(
    Recipe(task="fill", name="blanks"),
    [
        "data.format={kind = 'made_names', count = 500}",
        "data.max_length=24",
        "tokenizer.kind=word",
        "model.stem={width = 32, dropout = 0.0, word_dropout = 0.0}",
        "model.encoder={width = 32, layers = 1, heads = 2, feed_forward = 64, dropout = 0.0}",
        "training.steps=200",
        "training.warmup=10",
        "training.schedule=cosine",
        "training.learning_rate=1e-2",
        "training.batch_examples=64",
        "training.validate_every=100",
        "training.save_every=25",
        "training.label_smoothing=0.0",
        "training.device=cpu",
    ],
)
TAGGING = apply_overrides(
    replace(RECIPE, task="tag", model={}),
    ["training.steps=40", "training.batch_examples=32", "training.learning_rate=5e-3", "training.validate_every=40"],
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return regard.train(RECIPE, folder=tmp_path_factory.mktemp("run") / "blanks", quiet=True)


@pytest.fixture(scope="module")
def task(run):
    return run.model


def test_it_learns_what_fits_into_a_blank(run, task):
    assert list(run.scores) == ["loss", "accuracy"] and run.scores["accuracy"] > 45
    assert run_test(run.folder)["accuracy"] > 45
    one, two = task.fill(["The film begins _ eight .", "The __ to Paris was _ again ."], top=3)
    assert str(one) == "The film begins at eight ." and str(two) == "The train to Paris was late again ."
    assert [len(blank) for blank in two.blanks] == [3, 3] and two.blanks[0][0].word == "train"
    for blank in two.blanks:
        probabilities = [candidate.probability for candidate in blank]
        assert probabilities == sorted(probabilities, reverse=True) and 0 < sum(probabilities) <= 1 + 1e-6


def test_what_is_judged_is_the_same_each_time_and_in_any_company(task):
    examples = [Example(e.input, None) for e in regard_examples(30)]
    torch.manual_seed(1)
    first = task.judge(examples)
    torch.manual_seed(2)
    again = task.judge(examples)
    assert first.scores == again.scores and first.samples == again.samples
    hidden = [task.judge([example]) for example in examples]
    sizes = [len(task.coded(task.recipe, task.pair, example).target) for example in examples]
    mean = sum(one.scores["loss"] * n for one, n in zip(hidden, sizes)) / sum(sizes)
    assert first.scores["loss"] == pytest.approx(mean, rel=1e-4)
    assert first.scores["loss"] == pytest.approx(task.loss(examples), rel=1e-4)
    source, output, wanted = hidden[0].samples[0]
    assert "_" in source and "_" not in wanted and len(source.split()) == len(output.split()) == len(wanted.split())


def regard_examples(count):
    from regard.data.format.made_names import MadeNames

    return MadeNames(count, seed=4).read([], "train")


def test_long_lines_are_learnt_from_to_their_end(task):
    text = " ".join(["The film begins at eight ."] * 30)
    (short, *more) = task.epochs(task.recipe, task.pair, [Example(text, None)])(0)
    assert len(short.source) == 24 and sum(len(c.source) for c in [short, *more]) == 180
    for coded in (short, *more):
        assert 1 <= len(coded.target) <= len(coded.source)
    assert len(task.coded(task.recipe, task.pair, Example(text, None)).source) == 24
    assert task.judge([Example(text, None)]).scores["loss"] > 0


@pytest.fixture(scope="module")
def subword_task(task):
    lines = ["the film was good.", "the film was bad.", "(so good) it was, really good!", "unwell but well"] * 30
    tokenizer = Subword.train(lines, seed=1, size=320)

    class Reader(type(task)):
        def __init__(self):
            self.recipe, self.pair = task.recipe, Pair(Text(tokenizer), Masked())

    return Reader()


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("the film was _.", "the film was good."),
        ("_ film was bad.", "the film was bad."),
        ("(so _) it was, really good!", "(so good) it was, really good!"),
        ("the film was _", "the film was bad"),
        ("it was, _ good!", "it was, really good!"),
    ],
)
def test_around_a_blank_the_text_is_cut_as_ever(subword_task, text, whole):
    ids, (place,) = subword_task.hidden(text)
    wanted = subword_task.tokenizer.encode(whole)
    assert ids[place] == UNKNOWN
    rest = len(ids) - place - 1
    assert ids[:place] == wanted[:place] and ids[place + 1 :] == wanted[len(wanted) - rest :]


def test_where_a_word_begins_only_what_begins_one_fits(subword_task):
    tokenizer = subword_task.tokenizer
    logits = torch.arange(len(tokenizer), dtype=torch.float) / 10
    opening = subword_task._candidates(logits, True, 500)
    surfaces = {tokenizer.surfaces([i])[0] for i in range(4, len(tokenizer))}
    assert opening and all(" " + candidate.word in surfaces for candidate in opening)
    assert len(subword_task._candidates(logits, False, 500)) > len(opening)
    assert all(candidate.word.strip() and "\ufffd" not in candidate.word for candidate in opening)


def test_underscores_inside_words_are_no_blanks(task):
    with pytest.raises(UserError, match="there is no blank in the text; write _ where"):
        task.fill(["snake_case and __init__x are words"])


def test_mistakes_are_one_line(task):
    with pytest.raises(UserError, match="there is no blank"):
        task.fill([""])
    with pytest.raises(UserError, match="the text has 61 tokens, but this model reads 24"):
        task.fill(["film " * 60 + "_"])


def test_a_stopped_run_goes_on_to_the_bit(run, tmp_path):
    """What is hidden is drawn by torch's generator, which a checkpoint keeps."""
    again = regard.train(RECIPE, "training.minutes=0.0", folder=tmp_path / "a", quiet=True)
    weights = (run.folder / "model" / "weights.safetensors").read_bytes()
    assert (again.folder / "model" / "weights.safetensors").read_bytes() == weights
    for checkpoint in sorted((again.folder / "checkpoints").iterdir())[-2:]:
        for file in checkpoint.iterdir():
            file.unlink()
        checkpoint.rmdir()
    regard.train(folder=tmp_path / "a", resume=True, quiet=True)
    assert (again.folder / "model" / "weights.safetensors").read_bytes() == weights


def test_another_task_goes_on_with_what_reads(run, tmp_path):
    start = f"training.from={run.folder}"
    frozen = regard.train(
        TAGGING, start, "training.steps=1", "training.learning_rate=1e-30", folder=tmp_path / "zero", quiet=True
    )
    old, new = (read_folder(folder / "model").weights() for folder in (run.folder, frozen.folder))
    reading = {name for name in old if name.startswith(("stem.", "encoder."))}
    assert reading and reading == {name for name in new if name.startswith(("stem.", "encoder."))}
    assert all(torch.equal(old[name], new[name]) for name in reading)
    assert new.keys() - reading == {"head.weight", "head.bias"}
    assert frozen.model.pair.input.files() == run.model.pair.input.files()  # the same tokenizer
    assert frozen.model.recipe.model["encoder"] == run.model.recipe.model["encoder"]


def test_going_on_is_better_than_beginning(run, tmp_path):
    """Few steps on few examples: with what was read before they are enough."""
    few = apply_overrides(TAGGING, ["data.format={kind = 'made_names', count = 60}", "training.steps=25"])
    begun = regard.train(
        replace(few, model={part: run.model.recipe.model[part] for part in ("stem", "encoder")} | {"kind": "tagger"}),
        folder=tmp_path / "new",
        quiet=True,
    )
    gone_on = regard.train(few, f"training.from={run.folder}", folder=tmp_path / "on", quiet=True)
    assert gone_on.scores["f1"] > begun.scores["f1"] + 5
    assert gone_on.scores["loss"] < begun.scores["loss"]


def test_dropout_may_be_chosen_anew_but_no_size(run, tmp_path):
    stated = ["model.stem={word_dropout = 0.2, width = 99}", "model.dropout=0.3", f"training.from={run.folder}"]
    again = regard.train(TAGGING, *stated, "training.steps=1", folder=tmp_path / "on", quiet=True).model.recipe.model
    assert again["stem"]["word_dropout"] == 0.2 and again["stem"]["dropout"] == again["encoder"]["dropout"] == 0.3
    assert again["stem"]["width"] == 32 and again["encoder"]["layers"] == 1


def test_what_does_not_fit_is_refused(run, tmp_path):
    with pytest.raises(UserError, match="is made to fill and reads text, but a model to classify reads image"):
        regard.train(
            apply_overrides(Recipe(task="classify"), ["data.format={kind = 'made_shapes'}", "model.stem=patches"]),
            f"training.from={run.folder}",
            folder=tmp_path / "x",
            quiet=True,
        )
    assert not (tmp_path / "x").exists()


def test_from_random_weights_it_guesses_nothing(tmp_path):
    found = regard.train(RECIPE, "training.steps=1", folder=tmp_path / "a", quiet=True)
    assert found.scores["accuracy"] < 30


def test_words_in_another_order_teach_little(tmp_path, monkeypatch):
    from regard.data import splitting

    read = splitting.read_parts

    def shuffled(data):
        parts = read(data)
        pick = random.Random(1)
        words = [word for example in parts.train for word in example.input]
        pick.shuffle(words)
        take = iter(words)
        parts.train = [Example([next(take) for _ in example.input], None) for example in parts.train]
        return parts

    monkeypatch.setattr("regard.task._examples.read_parts", shuffled)
    assert regard.train(RECIPE, folder=tmp_path / "toy", quiet=True).scores["accuracy"] < 30
