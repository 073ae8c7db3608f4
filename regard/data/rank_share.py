"""Which batches of a stream are one process's own, when several train one model. The others it never builds."""

from __future__ import annotations

from typing import NamedTuple

import torch

from regard.types import Batch

OTHER_RANKS_BATCH = Batch(
    torch.zeros(0, 0), torch.zeros(0, 0, dtype=torch.bool), torch.zeros(0, 0), torch.zeros(0, 0, dtype=torch.bool), 0
)
"""Stands, without any row, in the place of a batch that another process builds."""


class RankShare(NamedTuple):
    """Of `together` batches in a row, those that make one step, this process takes each `of`-th from `rank` on."""

    rank: int = 0
    of: int = 1
    together: int = 1

    def has(self, turn: int) -> bool:
        """`turn` counts batches from where an iteration began, which is where a step begins."""
        return turn % self.together % self.of == self.rank
