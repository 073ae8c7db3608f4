"""A classifier from a recipe to labels with probabilities: saved, loaded, resumed, fine-tuned, cross-validated."""

import random

import pytest
import torch

import regard
from regard.config import Recipe, apply_overrides, tiny_form
from regard.data import splitting
from regard.data.format._base import Example
from regard.errors import UserError
from regard.evaluation.labels import accuracy, macro_f1
from regard.runs import cross_validate
from regard.runs import test as run_test

RECIPE = apply_overrides(
    Recipe(task="classify", name="toy"),
    [
        "data.format={kind = 'made_reviews', count = 600}",
        "tokenizer.kind=word",
        "model.width=16",
        "model.encoder={kind = 'recurrent', cell = 'gru'}",
        "training.steps=80",
        "training.warmup=5",
        "training.schedule=cosine",
        "training.learning_rate=1e-2",
        "training.batch_tokens=600",
        "training.validate_every=30",
        "training.save_every=10",
        "training.label_smoothing=0.0",
        "training.device=cpu",
    ],
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return regard.train(RECIPE, folder=tmp_path_factory.mktemp("run") / "toy", quiet=True)


def test_it_learns_and_says_how_sure_it_is(run):
    assert run.scores["accuracy"] > 95 and list(run.scores)[0] == "accuracy"
    found = run.model.classify(["a wonderful film", "boring boring the", "film"])
    assert [one.label for one in found][:2] == ["positive", "negative"]
    for one in found:
        assert sum(one.probabilities.values()) == pytest.approx(1, abs=1e-5)
        assert one.probability == max(one.probabilities.values()) == next(iter(one.probabilities.values()))
    assert run_test(run.folder)["accuracy"] > 95


def test_neighbours_do_not_change_an_answer(run):
    pick = random.Random(3)
    texts = [
        " ".join(pick.choices(["wonderful", "boring", "the", "film", "unheard"], k=pick.randint(1, 9)))
        for _ in range(30)
    ]
    model = run.model
    together = model.classify(texts)
    for text, one in zip(texts, together, strict=True):
        assert model.classify([text])[0].probabilities == pytest.approx(one.probabilities, abs=1e-5)


def test_with_labels_shuffled_it_learns_nothing(tmp_path, monkeypatch):
    read = splitting.read_parts

    def shuffled(data):
        parts = read(data)
        labels = [example.target for example in parts.train]
        random.Random(1).shuffle(labels)
        parts.train = [Example(example.input, label) for example, label in zip(parts.train, labels, strict=True)]
        return parts

    monkeypatch.setattr("regard.task._examples.read_parts", shuffled)
    assert regard.train(RECIPE, folder=tmp_path / "toy", quiet=True).scores["accuracy"] < 75


def test_a_stopped_run_goes_on_to_the_bit(run, tmp_path):
    first = regard.train(RECIPE, "training.steps=80", "training.minutes=0.0", folder=tmp_path / "a", quiet=True)
    weights = (run.folder / "model" / "weights.safetensors").read_bytes()
    assert (first.folder / "model" / "weights.safetensors").read_bytes() == weights
    for checkpoint in sorted((first.folder / "checkpoints").iterdir())[-2:]:
        for file in checkpoint.iterdir():
            file.unlink()
        checkpoint.rmdir()
    again = regard.train(folder=tmp_path / "a", resume=True, quiet=True)
    assert (again.folder / "model" / "weights.safetensors").read_bytes() == weights


def test_fine_tuning_keeps_what_was_learnt(run, tmp_path):
    more = regard.train(RECIPE, f"training.from={run.folder}", "training.steps=1", folder=tmp_path / "b", quiet=True)
    assert more.scores["accuracy"] > 95


def test_folds(tmp_path):
    recipe = apply_overrides(RECIPE, ["training.steps=20"])
    scores, folder = cross_validate(recipe, 2, tmp_path / "folds", quiet=True)
    assert set(scores) == {"accuracy", "f1", "loss"} and (folder / "fold-1" / "model").is_dir()


def test_mistakes_are_one_line(run, tmp_path):
    with pytest.raises(UserError, match="made to classify, not to translate"):
        regard.load(run.folder, task="translate")
    with pytest.raises(UserError, match="label 'lukewarm' was never seen"):
        run.model.judge([Example("a film", "lukewarm")])
    with pytest.raises(UserError, match="no tiny form"):
        tiny_form(RECIPE)
    with pytest.raises(UserError, match="task: no kind 'clasify'"):
        regard.train(RECIPE, "task=clasify", folder=tmp_path / "c", quiet=True)
    with pytest.raises(UserError, match="model.pooling: no 'sum'"):
        regard.train(RECIPE, "model.pooling=sum", folder=tmp_path / "c", quiet=True)
    assert not (tmp_path / "c").exists()


def test_scores_by_hand():
    given, wanted = ["a", "a", "b", "c"], ["a", "b", "b", "b"]
    assert accuracy(given, wanted) == 50
    assert macro_f1(given, wanted) == pytest.approx((100 * 2 * 1 / (2 + 1) + 100 * 2 * 1 / (1 + 3)) / 2)


def test_it_can_be_watched(run):
    task = run.model
    with regard.capture(task.model) as seen:
        task.classify(["a wonderful film"])
    assert any("encoder" in name for name in seen) and all(
        torch.isfinite(t).all() for calls in seen.values() for t in calls
    )


def test_what_is_validated_is_the_likelihood_alone(tmp_path):
    """Smoothing is for training: a loss is the same whether it was measured then or later."""
    more = ("training.label_smoothing=0.3", "training.steps=10", "training.validate_every=10")
    run = regard.train(RECIPE, *more, folder=tmp_path / "smooth", quiet=True)
    valid = splitting.read_parts(RECIPE.data).valid
    assert run.model.judge(valid).scores == pytest.approx(run.scores, abs=1e-5)
