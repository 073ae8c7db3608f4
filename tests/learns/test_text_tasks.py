"""The scores that tiny forms of text recipes must beat cannot be reached by luck: with shuffled targets none is.

The recipes named sst2-* have the same tiny forms as sentiment-*, so these stand for both.
"""

import random

import pytest

import regard
from regard.config import read_recipe, tiny_form
from regard.data import splitting
from regard.data.format._base import Example

RECIPES = [
    *("sentiment-lstm", "sentiment-bilstm", "sentiment-transformer", "sentiment-bert"),
    *("entities-bilstm", "entities-transformer", "entities-bert"),
    *("splice", "promoters", "splice-mark", "bert-english"),
]
EVERY_TIME = {RECIPES[0], "splice-mark"}
"""A classifier and a tagger; the others with the slow tests."""


def dealt(examples, task):
    """The same inputs and the same targets, but not together; of text without targets, the same words elsewhere."""
    pick = random.Random(1)
    if task == "classify":
        labels = [example.target for example in examples]
        pick.shuffle(labels)
        return [Example(example.input, label) for example, label in zip(examples, labels, strict=True)]
    part = 1 if task == "tag" else 0
    each = [item for example in examples for item in example[part]]
    pick.shuffle(each)
    rest = iter(each)
    again = [[next(rest) for _ in example[part]] for example in examples]
    return [Example(e.input, items) if part else Example(items, None) for e, items in zip(examples, again, strict=True)]


@pytest.mark.parametrize("name", [n if n in EVERY_TIME else pytest.param(n, marks=pytest.mark.slow) for n in RECIPES])
def test_targets_at_random_teach_nothing(name, tmp_path, monkeypatch):
    recipe = read_recipe(name)
    read = splitting.read_parts

    def shuffled(data):
        parts = read(data)
        parts.train = dealt(parts.train, recipe.task)
        return parts

    monkeypatch.setattr("regard.task._examples.read_parts", shuffled)
    run = regard.train(tiny_form(recipe), "training.device=cpu", folder=tmp_path / "run", quiet=True)
    ((score, bound),) = recipe.tiny["beats"].items()
    assert run.scores[score] < bound - 5, f"{score} {run.scores[score]:.1f}, and {bound} is said to show learning"


@pytest.mark.parametrize("kind", ["lstm", "bilstm", "transformer"])
def test_sst2_is_tried_as_sentiment_is(kind):
    one, other = (tiny_form(read_recipe(f"{name}-{kind}")) for name in ("sentiment", "sst2"))
    other.name = one.name
    assert one == other
