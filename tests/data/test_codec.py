"""What examples share is encoded once: an image with five captions is one array."""

import numpy as np
import pytest

from regard.config import Recipe, apply_overrides
from regard.data.codec import Pair
from regard.data.format._base import Example
from regard.data.input.image import Image
from regard.data.target.label import Label
from regard.data.target.tags import Tags
from regard.task.caption import Captioner
from regard.task.classify import Classifier

CAPTIONS = ["a dog", "a brown dog", "a dog runs", "the dog", "one dog on grass"]


@pytest.fixture
def examples() -> list[Example]:
    """Three pictures with five captions each, the third looking just like the second."""
    random = np.random.default_rng(0)
    one, two = random.integers(0, 256, (2, 8, 8, 3), dtype=np.uint8)
    return [Example(picture, text) for picture in (one, two, two.copy()) for text in CAPTIONS]


def fitted(examples: list[Example]) -> Pair:
    return Pair.fit(examples, "image", "text", seed=1, input_options={}, target_options={"kind": "word"})


def test_what_examples_share_is_encoded_once(examples, monkeypatch):
    pair = fitted(examples)
    alone = [pair.encode(example) for example in examples]
    encode, calls = Image.encode, []
    monkeypatch.setattr(Image, "encode", lambda self, raw: calls.append(id(raw)) or encode(self, raw))
    together = list(pair.encode_all(examples))
    assert len(calls) == len(set(calls)) == 3
    assert [len({id(one.source) for one in together[i : i + 5]}) for i in (0, 5, 10)] == [1, 1, 1]
    assert len({id(one.source) for one in together}) == 3
    for one, other in zip(together, alone, strict=True):
        assert all(np.array_equal(*parts) for parts in zip(one, other, strict=True))


def test_a_task_keeps_them_once(examples):
    pair = fitted(examples)
    recipe = Recipe(task="caption")
    coded = Captioner.epochs(recipe, pair, examples)(0)
    assert len(coded) == 15 and len({id(one.source) for one in coded}) == 3
    held = {id(one.source): one.source.nbytes for one in coded}
    assert sum(held.values()) == 3 * 3 * 8 * 8 * 4


def test_text_is_cut_at_both_ends_of_a_model(examples):
    recipe = apply_overrides(Recipe(), ["data.max_length=2"])
    pair = fitted(examples)
    for one in Captioner.epochs(recipe, pair, examples)(0):
        assert one.source.shape == (3, 8, 8) and len(one.target) == len(one.target_mask) == 3 and not one.target_mask[0]
    texts = [Example(" ".join(["word"] * length), label) for length, label in ((1, "a"), (9, "b"))]
    read = Pair.fit(texts, "text", "label", seed=1, input_options={"kind": "word"}, target_options={})
    assert [len(one.source) for one in Classifier.epochs(recipe, read, texts)(0)] == [1, 2]
    assert [len(Classifier.coded(recipe, read, text).source) for text in texts] == [1, 2]


def test_a_target_says_whether_it_has_the_label_of_an_example() -> None:
    label, tags = Label(["cat", "dog"]), Tags(Label(["O", "B-x"]))
    assert label.knows(Example(None, "dog")) and not label.knows(Example(None, "bird"))
    assert tags.knows(Example(None, ["O", "B-x"])) and not tags.knows(Example(None, ["O", "B-y"]))
