"""The laws of targets. Every file in data/target is found and held to them, on its own `sample()`."""

import copy

import numpy as np
import pytest

from regard import registry
from regard.data.codec import Pair, input_class, target_class
from regard.data.examples import collate
from tests.contracts.codecs import check_damage, check_saved

KINDS = registry.kinds("data/target")


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def examples(kind):
    return target_class(kind).sample().examples


@pytest.fixture
def input(kind, examples):
    found = target_class(kind).sample().input
    return input_class(found).fit([example.input for example in examples], seed=1)


@pytest.fixture
def codec(kind, examples):
    return target_class(kind).fit(examples, seed=1)


def same(one, other):
    return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_it_is_what_it_says(kind, codec, examples, input):
    assert codec.kind == kind and len(examples) >= 3
    for example in examples:
        values, mask = codec.encode(example, input)
        assert len(values) == len(mask) and mask.dtype == bool and mask.ndim == 1 and mask.any()
        assert values.dtype in (np.float32, np.int64) and np.isfinite(values).all()


def test_encoding_depends_on_the_example_alone(kind, codec, examples, input):
    before = copy.deepcopy(examples)
    encoded = [codec.encode(example, input) for example in examples]
    again = target_class(kind).fit(before, seed=1)
    assert again.files() == codec.files()
    for example, old, found in zip(reversed(examples), reversed(before), reversed(encoded)):
        assert same(codec.encode(example, input), found) and same(again.encode(old, input), found)


def test_saved_and_loaded_it_encodes_the_same(codec, examples, input):
    loaded = check_saved(codec)
    for example in examples:
        assert same(loaded.encode(example, input), codec.encode(example, input))


def test_damaged_files_are_refused_in_one_line(codec):
    check_damage(codec)


def test_padding_cannot_matter(codec, examples, input):
    pair = Pair(input, codec)
    coded = list(pair.encode_all(examples))
    batch = collate(coded, input.varying)
    assert batch.units == sum(int(one.target_mask.sum()) for one in coded)
    for row, one in enumerate(coded):
        length = len(one.target)
        assert np.array_equal(batch.target[row, :length].numpy(), one.target)
        assert np.array_equal(batch.target_mask[row, :length].numpy(), one.target_mask)
        assert not batch.target_mask[row, length:].any() and not batch.target[row, length:].any()
        alone = collate([one], input.varying)
        assert np.array_equal(alone.target[0].numpy(), one.target) and alone.units == int(one.target_mask.sum())
