"""Mixup and cutmix: what is mixed, in which shares, and the loss of a classifier."""

import pytest
import torch
from torch.nn import functional as F

from regard.assemble import build_model
from regard.errors import UserError
from regard.layers.mixing import Mixing, cut
from regard.types import Batch

PICTURES = torch.arange(6.0)[:, None, None, None].expand(6, 3, 8, 8)
"""Every pixel of a picture is its number."""


def test_mixup_is_a_weighted_mean():
    torch.manual_seed(1)
    mixed = Mixing(mixup=0.8)(PICTURES)
    wanted = mixed.share * PICTURES + (1 - mixed.share) * PICTURES[mixed.other]
    torch.testing.assert_close(mixed.source, wanted)
    assert sorted(mixed.other.tolist()) == list(range(6)) and 0 < mixed.share < 1


def test_cutmix_cuts_a_rectangle_whose_area_is_the_others_share():
    mixed = cut(PICTURES, torch.arange(5, -1, -1), torch.tensor(0.75), torch.tensor([0.5, 0.5]))
    assert mixed.share == 0.75
    others = mixed.source[0, 0] == 5
    assert others.sum() == 16 and others[2:6, 2:6].all()  # half of each side, around the centre
    corner = cut(PICTURES, torch.arange(5, -1, -1), torch.tensor(0.75), torch.tensor([0.0, 0.0]))
    assert corner.share == 1 - 4 / 64 and (corner.source[0, 0, :2, :2] == 5).all()  # what lies outside is cut off


def test_shares_follow_beta_and_both_ways_take_turns():
    torch.manual_seed(2)
    shares = torch.stack([Mixing(mixup=0.4)(PICTURES[:2]).share for _ in range(800)])
    assert float(shares.mean()) == pytest.approx(0.5, abs=0.05)
    assert float(shares.var()) == pytest.approx(1 / (4 * (2 * 0.4 + 1)), abs=0.02)
    both = [Mixing(0.4, 1.0)(PICTURES).source for _ in range(60)]
    whole = sum(bool((source == source.round()).all()) for source in both)
    assert 15 < whole < 50  # cutmix leaves pixels as they are
    torch.manual_seed(5)
    once = Mixing(0.4, 1.0)(PICTURES)
    torch.manual_seed(5)
    assert torch.equal(once.source, Mixing(0.4, 1.0)(PICTURES).source)


def classifier(**more):
    torch.manual_seed(0)
    stem = {"kind": "patches", "patch": 4, "width": 8, "dropout": 0.0}
    encoder = {"kind": "none"}
    tree = {"kind": "classifier", "stem": stem, "encoder": encoder, "head_dropout": 0.0, **more}
    return build_model(tree, channels=3, size=8, labels=6)


def batch(pictures=PICTURES):
    labels = torch.arange(len(pictures))[:, None]
    return Batch(pictures, torch.ones(len(pictures), 1).bool(), labels, torch.ones_like(labels).bool(), len(pictures))


def test_the_loss_is_that_of_soft_labels_in_training_only():
    model, plain = classifier(mixup=1.0).train(), classifier().eval()
    torch.manual_seed(3)
    loss = model.loss(batch()).total
    torch.manual_seed(3)
    mixed = Mixing(mixup=1.0)(PICTURES)
    one_hot = torch.eye(6)
    soft = mixed.share * one_hot + (1 - mixed.share) * one_hot[mixed.other]
    logits = plain(mixed.source, torch.ones(6, 1).bool())
    torch.testing.assert_close(loss, F.cross_entropy(logits, soft, reduction="sum"))
    torch.testing.assert_close(model.eval().loss(batch()).total, plain.loss(batch()).total)


def test_tokens_are_refused_in_one_line():
    with pytest.raises(UserError, match="mix pictures, which this model does not read"):
        Mixing(mixup=1.0)(torch.ones(2, 5, dtype=torch.long))
