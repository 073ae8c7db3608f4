"""The laws of attention. Every file in layers/attention is found and held to them."""

import pytest
import torch

from regard import registry
from regard.layers.capture import capture

WIDTH = 16


@pytest.fixture(params=registry.kinds("layers/attention"))
def attention(request):
    torch.manual_seed(0)
    made = registry.build("layers/attention", request.param, width=WIDTH, heads=4).eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return made


@pytest.fixture
def seen():
    torch.manual_seed(1)
    mask = torch.ones(3, 1, 6, dtype=torch.bool)
    mask[1, :, 4:] = mask[2, :, 1:] = False
    return torch.randn(3, 5, WIDTH), torch.randn(3, 6, WIDTH), mask


@torch.no_grad()
def test_masked_positions_cannot_matter(attention, seen):
    query, memory, mask = seen
    changed = torch.where(mask.transpose(1, 2), memory, torch.full_like(memory, 99.0))
    torch.testing.assert_close(attention(query, changed, mask), attention(query, memory, mask), atol=1e-6, rtol=1e-5)


@torch.no_grad()
def test_visible_positions_do_matter(attention, seen):
    query, memory, mask = seen
    assert not torch.allclose(attention(query, memory + 1, mask), attention(query, memory, mask), atol=1e-3)


@torch.no_grad()
def test_rows_are_independent(attention, seen):
    query, memory, mask = seen
    together = attention(query, memory, mask)
    for row in range(3):
        alone = attention(query[row : row + 1], memory[row : row + 1], mask[row : row + 1])
        torch.testing.assert_close(together[row : row + 1], alone, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_one_query_at_a_time_equals_all_at_once(attention, seen):
    query, memory, mask = seen
    single = torch.cat([attention(query[:, t : t + 1], memory, mask) for t in range(5)], dim=1)
    torch.testing.assert_close(single, attention(query, memory, mask), atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_a_padded_memory_equals_the_short_one(attention, seen):
    query, memory, mask = seen
    short = attention(query[1:2], memory[1:2, :4], mask[1:2, :, :4])
    torch.testing.assert_close(attention(query, memory, mask)[1:2], short, atol=1e-5, rtol=1e-5)


def test_a_fully_masked_row_stays_finite_with_its_gradient(attention, seen):
    query, memory, mask = seen
    query.requires_grad_(), memory.requires_grad_()
    mask = mask.clone()
    mask[0] = False
    for watched in (False, True):
        if watched:
            with capture(attention):
                out = attention(query, memory, mask)
        else:
            out = attention(query, memory, mask)
        assert out.isfinite().all()
        out.sum().backward()
        assert memory.grad.isfinite().all()


@torch.no_grad()
def test_watched_equals_unwatched_and_the_weights_are_a_distribution(attention, seen):
    query, memory, mask = seen
    plain = attention(query, memory, mask)
    with capture(attention) as watched:
        spelled = attention(query, memory, mask)
    torch.testing.assert_close(spelled, plain, atol=1e-5, rtol=1e-5)
    weights = watched["weights"][0]
    assert weights.ndim == 4
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]), atol=1e-5, rtol=0)
    assert (weights.masked_select(~mask[:, None].expand_as(weights)) == 0).all()
