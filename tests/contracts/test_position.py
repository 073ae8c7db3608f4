"""The laws of positions. Every file in layers/position is found and held to them."""

import pytest
import torch

from regard import registry


@pytest.fixture(params=registry.kinds("layers/position"))
def position(request):
    torch.manual_seed(0)
    return registry.build("layers/position", request.param, width=10).eval()  # training may move them


def test_one_position_at_a_time_equals_all_at_once(position):
    together = position(torch.arange(12))
    assert together.shape == (12, 10)
    single = torch.cat([position(torch.tensor([t])) for t in range(12)])
    torch.testing.assert_close(single, together)


def test_positions_are_finite_up_to_the_limit(position):
    last = (position.limit or 5000) - 1
    assert position(torch.tensor([last])).isfinite().all()
