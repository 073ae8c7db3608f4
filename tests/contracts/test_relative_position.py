"""The laws of relative positions. Every file in layers/relative_position is found and held to them."""

import math

import pytest
import torch

from regard import registry
from regard.layers.attend import rotate

HEADS, WIDTH = 3, 8


@pytest.fixture(params=[(kind, causal) for kind in registry.kinds("layers/relative_position") for causal in (0, 1)])
def relative(request):
    torch.manual_seed(0)
    kind, causal = request.param
    made = registry.build("layers/relative_position", kind, heads=HEADS, causal=bool(causal), head_width=WIDTH).eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)
    query, key = torch.randn(2, 1, 1, HEADS, WIDTH).unbind()

    def turned(vector, positions):
        rotation = made.rotation(torch.tensor(positions))
        assert (rotation is not None) == made.rotates
        heads = vector.expand(1, len(positions), -1, -1)
        return heads if rotation is None else rotate(heads, rotation)

    def score(queries, keys):
        """The score of one query and one key wherever they are; what nothing adds is zero."""
        scores = torch.einsum("bthk,bshk->hts", turned(query, queries), turned(key, keys)) / math.sqrt(WIDTH)
        found = made(torch.tensor(queries), torch.tensor(keys))
        assert (found is None) == (not made.adds)
        return scores if found is None else scores + found

    return score


def test_one_query_and_one_key_at_a_time_equal_all_at_once(relative):
    together = relative([*range(9)], [*range(9)])
    assert together.shape == (HEADS, 9, 9)
    for query in range(9):
        torch.testing.assert_close(relative([query], [*range(9)]), together[:, query : query + 1])
        torch.testing.assert_close(relative([*range(9)], [query]), together[:, :, query : query + 1])


def test_only_the_distance_matters(relative):
    here = relative([*range(5)], [*range(8)])
    torch.testing.assert_close(relative([*range(700, 705)], [*range(700, 708)]), here, atol=2e-4, rtol=1e-5)


def test_it_is_finite_at_any_distance(relative):
    assert relative([0, 10_000], [0, 10_000]).isfinite().all()
