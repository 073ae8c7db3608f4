"""A linear layer of stacked projections: all of them in one product, or some of them alone."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


class Linear(nn.Linear):
    """torch's nn.Linear; `part` applies some rows of W only."""

    def part(self, x: Float[Tensor, "*N D"], start: int, stop: int) -> Float[Tensor, "*N P"]:
        return F.linear(x, self.weight[start:stop], None if self.bias is None else self.bias[start:stop])
