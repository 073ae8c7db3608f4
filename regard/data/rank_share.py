"""The share of a batch stream that one rank builds when several processes train one model."""

from __future__ import annotations

from typing import NamedTuple

import torch

from regard.types import Batch

OTHER_RANKS_BATCH = Batch(
    torch.zeros(0, 0), torch.zeros(0, 0, dtype=torch.bool), torch.zeros(0, 0), torch.zeros(0, 0, dtype=torch.bool), 0
)
"""An empty batch in place of one that another rank builds."""


class RankShare(NamedTuple):
    """Of the `together` consecutive batches of a step, this rank takes every `of`-th, starting at `rank`."""

    rank: int = 0
    of: int = 1
    together: int = 1

    def has(self, turn: int) -> bool:
        """Whether batch number `turn` of the iteration is this rank's; iterations start at a step."""
        return turn % self.together % self.of == self.rank
