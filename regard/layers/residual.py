"""Add & Norm: the residual connection around a sublayer (Vaswani et al. 2017, 3.1), and its pre-norm variant."""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import UserError


class Residual(nn.Module):
    """post (the paper): norm(x + dropout(f(x))); pre: x + dropout(f(norm(x))), which trains deep stacks more easily."""

    def __init__(self, width: int, dropout: float = 0.1, norm: str = "post"):
        super().__init__()
        if norm not in ("pre", "post"):
            raise UserError(f"model.norm: no '{norm}'; use pre or post")
        self.first = norm == "pre"
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T D"], sublayer: Callable[[Tensor], Tensor]) -> Float[Tensor, "B T D"]:
        # Autocast normalises in float32; the cast keeps the residual stream in the type it came with.
        if self.first:
            return x + self.dropout(sublayer(self.norm(x).to(x.dtype)))
        return self.norm(x + self.dropout(sublayer(x))).to(x.dtype)


def last_norm(width: int, norm: str) -> nn.Module:
    """A pre-norm stack needs one more norm at its end; a post-norm stack ends with one already."""
    return nn.LayerNorm(width) if norm == "pre" else nn.Identity()
