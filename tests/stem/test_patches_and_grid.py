"""Stems of images: patches in order, a grid of positions, and images that do not fit."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard.assemble import build_model
from regard.errors import UserError
from regard.stem.grid import Grid
from regard.stem.patches import Patches


def mask_for(images):
    return torch.ones(len(images), 1, dtype=torch.bool)


def test_patches_come_row_by_row_channel_by_channel():
    images = torch.arange(2 * 4 * 4).float().reshape(1, 2, 4, 4)
    patches = Patches(channels=2, size=4, patch=2).cut(images)
    assert patches[0].tolist() == [
        [0, 1, 4, 5, 16, 17, 20, 21],
        [2, 3, 6, 7, 18, 19, 22, 23],
        [8, 9, 12, 13, 24, 25, 28, 29],
        [10, 11, 14, 15, 26, 27, 30, 31],
    ]


@torch.no_grad()
def test_patches_are_a_convolution_whose_stride_is_its_size():
    torch.manual_seed(0)
    stem = Patches(3, 12, patch=3, width=8, position="none", class_token=False).eval()
    nn.init.normal_(stem.project.bias)
    images = torch.randn(2, 3, 12, 12)
    expected = F.conv2d(images, stem.project.weight.reshape(8, 3, 3, 3), stem.project.bias, stride=3)
    vectors, mask = stem(images, mask_for(images))
    torch.testing.assert_close(vectors, expected.flatten(2).transpose(1, 2), atol=1e-5, rtol=1e-5)
    assert stem.grid == (4, 4) and mask.shape == (2, 16)


@torch.no_grad()
def test_the_class_token_is_first_the_same_for_all_and_has_a_place_of_its_own():
    torch.manual_seed(0)
    stem = Patches(1, 8, patch=4, width=6).eval()
    nn.init.normal_(stem.class_token)
    images = torch.randn(3, 1, 8, 8)
    vectors, mask = stem(images, mask_for(images))
    places = stem.placing.position.table.weight
    assert mask.shape == (3, 5) and places.shape == (5, 6)
    torch.testing.assert_close(vectors[:, 0], (stem.class_token + places[0]).expand(3, -1))
    torch.testing.assert_close(vectors[:, 1:], stem.project(stem.cut(images)) + places[1:])


def test_parameters_are_those_of_the_paper():
    stem = Patches(3, 32, patch=4, width=192)
    assert sum(p.numel() for p in stem.parameters()) == 192 * (3 * 4 * 4) + 192 + 192 + (1 + 8 * 8) * 192


@pytest.mark.parametrize("size, side", [(64, 8), (32, 4), (28, 4), (17, 3)])
@torch.no_grad()
def test_a_grid_halves_the_image_three_times(size, side):
    stem = Grid(3, size, width=32).eval()
    images = torch.randn(2, 3, size, size)
    vectors, mask = stem(images, mask_for(images))
    assert stem.grid == (side, side) and vectors.shape == (2, side * side, 32) and mask.shape == (2, side * side)


@torch.no_grad()
def test_the_places_of_a_grid_are_in_the_order_of_the_image():
    """What is changed in a quarter of the image is seen most in that quarter of the grid."""
    torch.manual_seed(0)
    stem = Grid(1, 64, width=32, position="none").eval()
    images = torch.randn(1, 1, 64, 64)
    before, _ = stem(images, mask_for(images))
    for quarter in range(4):
        row, column = divmod(quarter, 2)
        changed = images.clone()
        changed[:, :, 32 * row + 8 : 32 * row + 24, 32 * column + 8 : 32 * column + 24] += torch.randn(16, 16)
        after, _ = stem(changed, mask_for(changed))
        seen = (after - before).abs().sum(-1).reshape(2, 4, 2, 4).sum((1, 3)).flatten()
        assert seen.argmax() == quarter and seen[quarter] > seen.sum() / 2


@torch.no_grad()
def test_a_grid_in_training_does_not_mix_the_images_of_a_batch():
    torch.manual_seed(0)
    stem = Grid(3, 16, width=16, dropout=0.0).train()
    images = torch.randn(4, 3, 16, 16)
    together, _ = stem(images, mask_for(images))
    alone, _ = stem(images[:1], mask_for(images[:1]))
    torch.testing.assert_close(together[:1], alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("make", [Patches, Grid])
def test_images_are_augmented_in_training_only(make):
    torch.manual_seed(0)
    stem = make(1, 16, width=16, dropout=0.0, augment="flip shift erase")
    images = torch.randn(8, 1, 16, 16)
    plain = make(1, 16, width=16, dropout=0.0)
    plain.load_state_dict(stem.state_dict())
    assert torch.equal(stem.eval()(images, mask_for(images))[0], plain(images, mask_for(images))[0])
    assert not torch.allclose(stem.train()(images, mask_for(images))[0], plain(images, mask_for(images))[0])


@pytest.mark.parametrize(
    "make, line",
    [
        (lambda: Patches(1, 28, patch=5), "model.stem.patch: 5 does not divide images of 28 pixels; use one of 2, 4, 7, 14, 28"),
        (lambda: Patches(1, 28, position={"kind": "learned", "length": 10}), "model.stem.position: room for 10 positions, but there are 50"),
        (lambda: Patches(1, 28, position="learnt"), "model.stem.position: no kind 'learnt'; did you mean 'learned'?"),
        (lambda: Patches(1, 28, augment="flop"), "model.stem.augment: no 'flop'; did you mean 'flip'?"),
        (lambda: Grid(1, 6, stages=3), "model.stem.stages: 6 pixels halved 3 times leave no grid"),
        (lambda: Grid(1, 64, width=30), "model.stem.width: 30 cannot be halved 2 times"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said_in_a_line(make, line):
    with pytest.raises(UserError) as error:
        make()
    assert line in str(error.value) and "\n" not in str(error.value)


def test_more_places_than_needed_may_be_stated():
    stem = Patches(1, 8, patch=4, position={"kind": "learned", "length": 10})
    assert stem(torch.randn(1, 1, 8, 8), torch.ones(1, 1, dtype=torch.bool))[0].shape == (1, 5, 192)


@pytest.mark.parametrize("make", [Patches, Grid])
def test_a_stem_learns_where_a_spot_is(make):
    """Four corners, one bright spot; pooled over places that have positions, or seen through the network."""
    torch.manual_seed(0)
    stem = make(1, 16, width=16, dropout=0.0)
    head = nn.Sequential(nn.GELU(), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 4))
    optimizer = torch.optim.Adam([*stem.parameters(), *head.parameters()], lr=0.01)
    images, corners = torch.randn(64, 1, 16, 16) * 0.3, torch.arange(64) % 4
    for image, corner in zip(images, corners.tolist()):
        image[0, 8 * (corner // 2) + 2 : 8 * (corner // 2) + 6, 8 * (corner % 2) + 2 : 8 * (corner % 2) + 6] += 2
    for _ in range(80):
        vectors, mask = stem(images, mask_for(images))
        loss = F.cross_entropy(head(vectors).mean(1), corners)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.3


def test_the_distillation_token_comes_second():
    stem = Patches(3, 12, patch=3, width=8, distillation_token=True, dropout=0.0).eval()
    nn.init.normal_(stem.class_token)
    nn.init.normal_(stem.distillation_token)
    vectors, _ = stem(torch.randn(2, 3, 12, 12), torch.ones(2, 1, dtype=torch.bool))
    places = stem.placing.position(torch.arange(18))
    assert stem.prepended == 2 and vectors.shape == (2, 18, 8)
    for number, token in enumerate((stem.class_token, stem.distillation_token)):
        torch.testing.assert_close(vectors[:, number], (token + places[number]).expand(2, -1))


def test_two_tokens_are_needed_where_two_are_read():
    with pytest.raises(UserError, match="distillation_token: comes after a class token"):
        Patches(3, 12, patch=3, width=8, class_token=False, distillation_token=True)
    tree = {"kind": "classifier", "pooling": "first_two", "stem": {"kind": "patches", "patch": 4}}
    with pytest.raises(UserError, match="first_two is for a stem with a class and a distillation token"):
        build_model(tree, channels=3, size=12, labels=2)
