"""The laws of inputs. Every file in data/input is found and held to them, on its own `sample()`."""

import copy

import numpy as np
import pytest

from regard import registry
from regard.data.codec import input_class
from regard.data.examples import pad_arrays
from regard.data.input._checks import check_keys
from regard.errors import UserError
from tests.contracts.codecs import check_damage, check_saved

KINDS = registry.kinds("data/input")


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def raws(kind):
    return input_class(kind).sample()


@pytest.fixture
def codec(kind, raws):
    return input_class(kind).fit(raws, seed=1)


def test_it_is_what_it_says(kind, codec, raws):
    assert codec.kind == kind and codec.takes and len(raws) >= 3
    arrays = [codec.encode(raw) for raw in raws]
    assert {array.dtype for array in arrays} in ({np.dtype(np.float32)}, {np.dtype(np.int64)})
    assert all(array.size and np.isfinite(array).all() for array in arrays)
    if codec.varying:
        assert len({len(array) for array in arrays}) > 1, "the sample should have several lengths"
        assert len({array.shape[1:] for array in arrays}) == 1
    else:
        assert len({array.shape for array in arrays}) == 1


def test_encoding_depends_on_the_example_alone(kind, codec, raws):
    before = copy.deepcopy(raws)
    arrays = [codec.encode(raw) for raw in raws]
    for raw, array in zip(reversed(raws), reversed(arrays)):
        assert np.array_equal(codec.encode(raw), array)
    assert all(not np.array_equal(one, other) for one, other in zip(arrays, arrays[1:]))
    again = input_class(kind).fit(raws, seed=1)
    for raw, old, array in zip(raws, before, arrays):
        assert np.array_equal(again.encode(old), array) and np.array_equal(again.encode(raw), array)


def test_saved_and_loaded_it_encodes_the_same(codec, raws):
    loaded = check_saved(codec)
    for raw in raws:
        one, other = codec.encode(raw), loaded.encode(raw)
        assert one.dtype == other.dtype and np.array_equal(one, other)


def test_damaged_files_are_refused_in_one_line(codec):
    check_damage(codec)


def test_padding_cannot_matter(codec, raws):
    arrays = [codec.encode(raw) for raw in raws]
    padded, mask = pad_arrays(arrays, codec.varying)
    assert len(padded) == len(mask) == len(raws)
    for array, row, real in zip(arrays, padded.numpy(), mask.numpy()):
        alone, _ = pad_arrays([array], codec.varying)
        if codec.varying:
            assert np.array_equal(row[real], array) and real.sum() == len(array) and not row[~real].any()
            assert real[: len(array)].all()
        else:
            assert np.array_equal(row, array) and real.all()
        assert np.array_equal(alone[0].numpy(), array)


def test_what_python_passes_is_encoded_as_what_files_hold(codec, raws):
    for raw in raws:
        assert codec.is_one(raw)
        accepted = codec.accept(raw)
        assert np.array_equal(codec.encode(accepted), codec.encode(raw))
        assert np.array_equal(codec.encode(codec.accept(accepted)), codec.encode(raw))
    assert not codec.is_one(iter(raws)) and not codec.is_one({"a": raws[0]})


@pytest.mark.parametrize("wrong", [None, object(), 1.5], ids=["None", "object", "float"])
def test_what_is_no_input_is_refused_in_one_line(codec, wrong):
    assert not codec.is_one(wrong)
    with pytest.raises(UserError, match="^this model takes ") as error:
        codec.accept(wrong)
    assert "\n" not in str(error.value) and codec.takes in str(error.value)


def test_no_examples_and_unknown_keys_are_refused_in_one_line(kind):
    for refuse in (lambda: input_class(kind).fit([], seed=1), lambda: check_keys(["no_such_key"], kind)):
        with pytest.raises(UserError) as error:
            refuse()
        assert "\n" not in str(error.value)
