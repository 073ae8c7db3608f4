"""Add & Norm: the residual connection around a sublayer (Vaswani et al. 2017, 3.1), and its pre-norm variant."""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import UserError, suggestion


class RMSNorm(nn.RMSNorm):
    """x / sqrt(mean of x^2 + epsilon) * gain: no mean, no bias (Zhang and Sennrich 2019)."""

    def forward(self, x: Float[Tensor, "*N D"]) -> Float[Tensor, "*N D"]:
        return super().forward(x.to(self.weight.dtype))  # autocast has no rule for it


NORMS: dict[str, Callable[..., nn.Module]] = {"layer": nn.LayerNorm, "rms": RMSNorm}


class Residual(nn.Module):
    """post (the paper): norm(x + dropout(f(x))); pre: x + dropout(f(norm(x))), which trains deep stacks more easily."""

    def __init__(
        self, width: int, dropout: float = 0.1, norm: str = "post", norm_kind: str = "layer", norm_epsilon: float = 1e-5
    ):
        super().__init__()
        if norm not in ("pre", "post"):
            raise UserError(f"model.norm: no '{norm}'; use pre or post")
        self.first = norm == "pre"
        self.norm = build_norm(width, norm_kind, norm_epsilon)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T D"], sublayer: Callable[[Tensor], Tensor]) -> Float[Tensor, "B T D"]:
        # Autocast normalises in float32; the cast keeps the residual stream in the type it came with.
        if self.first:
            return x + self.dropout(sublayer(self.norm(x).to(x.dtype)))
        return self.norm(x + self.dropout(sublayer(x))).to(x.dtype)


def build_norm(width: int, kind: str = "layer", epsilon: float = 1e-5) -> nn.Module:
    if kind not in NORMS:
        raise UserError(f"model.norm_kind: no '{kind}'{suggestion(kind, NORMS)}")
    return NORMS[kind](width, eps=epsilon)


def last_norm(width: int, norm: str, kind: str = "layer", epsilon: float = 1e-5) -> nn.Module:
    """A pre-norm stack needs one more norm at its end; a post-norm stack ends with one already."""
    return build_norm(width, kind, epsilon) if norm == "pre" else nn.Identity()
