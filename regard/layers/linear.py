"""x W^T + b, in whole or in part: several projections on top of each other are one product, or one of them alone."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


class Linear(nn.Linear):
    """torch's, of which one may ask for some rows of W only."""

    def part(self, x: Float[Tensor, "*N D"], start: int, stop: int) -> Float[Tensor, "*N P"]:
        return F.linear(x, self.weight[start:stop], self.bias[start:stop])
