"""The laws of relative positions. Every file in layers/relative_position is found and held to them."""

import pytest
import torch

from regard import registry

HEADS = 3


@pytest.fixture(params=[(kind, causal) for kind in registry.kinds("layers/relative_position") for causal in (0, 1)])
def relative(request):
    torch.manual_seed(0)
    kind, causal = request.param
    made = registry.build("layers/relative_position", kind, heads=HEADS, causal=bool(causal)).eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)

    def added(queries, keys):
        """What nothing adds is zero."""
        found = made(torch.tensor(queries), torch.tensor(keys))
        assert (found is None) == (not made.adds)
        return torch.zeros(HEADS, len(queries), len(keys)) if found is None else found

    return added


def test_one_query_and_one_key_at_a_time_equal_all_at_once(relative):
    together = relative([*range(9)], [*range(9)])
    assert together.shape == (HEADS, 9, 9)
    for query in range(9):
        torch.testing.assert_close(relative([query], [*range(9)]), together[:, query : query + 1])
        torch.testing.assert_close(relative([*range(9)], [query]), together[:, :, query : query + 1])


def test_only_the_distance_matters(relative):
    here = relative([*range(5)], [*range(8)])
    torch.testing.assert_close(relative([*range(700, 705)], [*range(700, 708)]), here)


def test_it_is_finite_at_any_distance(relative):
    assert relative([0, 10_000], [0, 10_000]).isfinite().all()
