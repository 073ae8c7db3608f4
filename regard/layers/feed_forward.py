"""The position-wise feed-forward network (Vaswani et al. 2017, 3.3)."""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import UserError, suggestion

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "gelu_tanh": lambda: nn.GELU(approximate="tanh"),  # GPT-2's
    "elu": nn.ELU,
    "silu": nn.SiLU,  # x sigmoid(x), also called swish
    "tanh": nn.Tanh,
}


def build_activation(name: str) -> nn.Module:
    if name not in ACTIVATIONS:
        raise UserError(f"model.activation: no '{name}'{suggestion(name, ACTIVATIONS)}")
    return ACTIVATIONS[name]()


class FeedForward(nn.Module):
    """max(0, x W_1 + b_1) W_2 + b_2, or with another activation f.

    With `gated` it is (f(x W_g) * x W_1) W_2 (Shazeer 2020).
    """

    def __init__(
        self,
        width: int,
        inner: int,
        activation: str = "relu",
        dropout: float = 0.0,
        gated: bool = False,
        bias: bool = True,
    ):
        super().__init__()
        self.inward = nn.Linear(width, inner, bias=bias)
        self.gate = nn.Linear(width, inner, bias=bias) if gated else None
        self.activation = build_activation(activation)
        self.dropout = nn.Dropout(dropout)
        self.outward = nn.Linear(inner, width, bias=bias)
        for name, parameter in self.named_parameters():
            (nn.init.zeros_ if name.endswith("bias") else nn.init.xavier_uniform_)(parameter)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        inner = self.inward(x)
        inner = self.activation(inner) if self.gate is None else self.activation(self.gate(x)) * inner
        return self.outward(self.dropout(inner))
