"""A mask, and the same as a cost: one attention, fused or watched."""

import pytest
import torch

from regard.assemble import build_model
from regard.layers.attend import attention_bias, dot_product_attention, masked_softmax


def test_a_cost_is_0_where_one_may_look_and_endless_where_not():
    mask = torch.tensor([[True, False]])
    assert attention_bias(mask, torch.float32).tolist() == [[0.0, -torch.inf]]
    assert attention_bias(mask, torch.bfloat16).dtype == torch.bfloat16


@pytest.mark.parametrize("watched", [False, True])
def test_a_mask_and_its_cost_give_the_same_attention(watched):
    torch.manual_seed(0)
    query, key, value = torch.randn(2, 3, 4, 8), torch.randn(2, 3, 5, 8), torch.randn(2, 3, 5, 8)
    mask = torch.rand(2, 1, 4, 5) > 0.5
    mask[..., 0] = True
    mask[0, 0, 2] = False  # a query that may look at nothing
    found, seen = [], []
    for way in (mask, attention_bias(mask, torch.float32)):
        observer = (lambda name, weights: seen.append(weights)) if watched else None
        found.append(dot_product_attention(query, key, value, way, observer=observer))
    scores = (query @ key.mT / 8**0.5).exp() * mask
    expected = scores / scores.sum(-1, keepdim=True).clamp_min(1e-30)
    for context in found:
        torch.testing.assert_close(context, expected @ value, atol=1e-5, rtol=1e-4)
    assert len(seen) == 2 * watched
    for weights in seen:
        torch.testing.assert_close(weights, expected, atol=1e-6, rtol=1e-4)
        assert not weights[~mask.expand_as(weights)].any()


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_r21_extreme_scores_sum_to_one_and_are_numbers(scale):
    scores = torch.tensor([[1e4, -1e4, 0.0], [1e4, 1e4, 1e4], [-1e4, -1e4, -1e4], [-torch.inf, 0.0, -1e4]]) / scale
    for mask in (None, torch.tensor([[True, True, False]])):
        weights = masked_softmax(scores, mask)
        assert torch.isfinite(weights).all()
        torch.testing.assert_close(weights.sum(-1), torch.ones(4), atol=1e-5, rtol=0)
    nothing = masked_softmax(torch.full((1, 3), -torch.inf), torch.zeros(1, 3, dtype=torch.bool))
    assert nothing.tolist() == [[0.0, 0.0, 0.0]]  # who may look at nothing looks at nothing


@pytest.mark.parametrize("watched", [False, True])
def test_dropout_of_weights_leaves_each_out_or_scales_it(watched):
    """With one-hot values the output is the weights themselves."""
    torch.manual_seed(0)
    query, key, values = torch.randn(1, 1, 3, 5), torch.randn(1, 1, 5, 5), torch.eye(5)[None, None]
    weights = (query @ key.mT / 5**0.5).softmax(-1)
    observer = (lambda name, weights: None) if watched else None
    drawn = [dot_product_attention(query, key, values, dropout=0.25, observer=observer) for _ in range(600)]
    for one in drawn[:50]:
        torch.testing.assert_close(one, torch.where(one == 0, 0.0, weights / 0.75))
    together = torch.stack(drawn)
    torch.testing.assert_close(together.mean(0), weights, atol=0.04, rtol=0)
    assert (together == 0).float().mean().item() == pytest.approx(0.25, abs=0.02)


def test_attention_dropout_is_a_setting_of_every_attention_and_off_by_default():
    sizes = {"width": 8, "heads": 2, "layers": 1, "feed_forward": 16, "dropout": 0.0}
    dropping = {"attention": {"kind": "multi_head", "dropout": 0.5}}
    ids, mask = torch.tensor([[5, 6, 7, 8, 9]]), torch.ones(1, 5, dtype=torch.bool)
    models = []
    for more in ({}, dropping):
        torch.manual_seed(0)
        models.append(build_model({**sizes, **more}, 20))
    plain, dropped = models
    assert not any(getattr(part, "dropout", None) for part in plain.modules() if hasattr(part, "kv_heads"))
    attentions = [part for part in dropped.modules() if hasattr(part, "kv_heads")]
    assert [part.dropout for part in attentions] == [0.5] * 3  # of the encoder, and two of the decoder
    torch.testing.assert_close(plain.eval()(ids, mask, ids), dropped.eval()(ids, mask, ids))
    torch.testing.assert_close(plain.train()(ids, mask, ids), plain(ids, mask, ids))
    assert not torch.allclose(dropped.train()(ids, mask, ids), dropped(ids, mask, ids))
