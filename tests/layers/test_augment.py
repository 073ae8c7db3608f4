"""Image augmentation: what each transformation may change, reproducible, and in training only."""

import pytest
import torch

from regard.errors import UserError
from regard.layers.augment import IMAGES, Augment, erase, flip, shift


@pytest.fixture
def images():
    torch.manual_seed(0)
    return torch.rand(200, 2, 16, 24) + 1  # nothing is 0 before something is erased


def test_half_of_the_images_are_mirrored_and_the_others_are_as_they_were(images):
    flipped = flip(images)
    mirrored = [torch.equal(a, b.flip(-1)) for a, b in zip(flipped, images)]
    same = [torch.equal(a, b) for a, b in zip(flipped, images)]
    assert all(m != s for m, s in zip(mirrored, same)) and 60 < sum(mirrored) < 140


def test_shifted_images_are_moved_whole_and_the_gap_is_empty(images):
    seen = set()
    for image, moved in zip(images, shift(images)):
        real = moved[0] != 0
        rows, columns = real.any(1).nonzero().flatten(), real.any(0).nonzero().flatten()
        top, left, height, width = int(rows[0]), int(columns[0]), len(rows), len(columns)
        assert real.sum() == height * width  # one rectangle
        down = top if top else height - 16
        right = left if left else width - 24
        assert abs(down) <= 2 and abs(right) <= 3
        expected = torch.zeros_like(image)
        expected[:, max(down, 0) : 16 + min(down, 0), max(right, 0) : 24 + min(right, 0)] = image[
            :, max(-down, 0) : 16 - max(down, 0), max(-right, 0) : 24 - max(right, 0)
        ]
        assert torch.equal(moved, expected)
        seen.add((down, right))
    assert {down for down, _ in seen} == {*range(-2, 3)} and {right for _, right in seen} == {*range(-3, 4)}


def test_erased_is_one_rectangle_in_half_of_the_images(images):
    erased, heights, widths = 0, set(), set()
    for image, left in zip(images, erase(images)):
        gone = left == 0
        assert torch.equal(left[~gone], image[~gone])
        assert torch.equal(gone[0], gone[1])  # in all channels
        if gone.any():
            height, width = int(gone[0].any(1).sum()), int(gone[0].any(0).sum())
            assert gone[0].sum() == height * width and height <= 9 and width <= 13
            erased += 1
            heights.add(height)
            widths.add(width)
    assert 60 < erased < 140 and len(heights) > 4 and len(widths) > 6


@pytest.mark.parametrize("names", [*IMAGES, "flip shift erase"])
def test_the_generator_decides_and_the_input_stays(images, names):
    augment, before = Augment(names), images.clone()
    state = torch.get_rng_state()
    once, twice = augment(images), augment(images)
    torch.set_rng_state(state)
    assert torch.equal(augment(images), once) and not torch.equal(once, twice)
    assert torch.equal(images, before) and once.shape == images.shape


def test_names_are_applied_in_their_order(images):
    torch.manual_seed(3)
    expected = shift(flip(images))
    torch.manual_seed(3)
    assert torch.equal(Augment("flip shift")(images), expected)


def test_nothing_is_changed_or_drawn_out_of_training(images):
    state = torch.get_rng_state()
    assert Augment("flip shift erase").eval()(images) is images
    assert Augment("").train()(images) is images
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("size", [1, 3, 7])
def test_tiny_images_are_no_trouble(size):
    images = torch.rand(5, 1, size, size)
    assert Augment("flip shift erase")(images).shape == images.shape


def test_a_wrong_name_is_told():
    with pytest.raises(UserError, match="model.stem.augment: no 'shfit'; did you mean 'shift'?"):
        Augment("flip shfit")


def test_other_inputs_may_bring_ways_of_their_own():
    double = Augment("double", {"double": lambda batch: 2 * batch})
    assert double(torch.ones(2, 3)).tolist() == [[2.0] * 3] * 2
