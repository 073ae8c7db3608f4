"""The two-stage top-k finds what a full sort finds."""

from __future__ import annotations

import pytest
import torch

from regard.decoding.best import GROUP, best


@pytest.mark.parametrize("size", [1, 7, GROUP, 40 * GROUP, 40 * GROUP + 1, 41 * GROUP - 1, 5003])
@pytest.mark.parametrize("levels", [0, 3])
def test_best(size: int, levels: int) -> None:
    random = torch.Generator().manual_seed(size)
    scores = torch.randn(20, size, generator=random)
    if levels:
        scores = torch.randint(0, levels, (20, size), generator=random).float()  # ties everywhere
    scores[torch.rand(20, size, generator=random) < 0.3] = -torch.inf
    scores[3] = -torch.inf
    for count in {1, min(4, size), min(10, size)}:
        values, places = best(scores, count)
        assert torch.equal(values, scores.sort(dim=1, descending=True).values[:, :count])
        assert torch.equal(scores.gather(1, places), values)
        assert all(len(set(row)) == count for row in places.tolist())
