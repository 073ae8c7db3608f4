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
}


class FeedForward(nn.Module):
    """max(0, x W_1 + b_1) W_2 + b_2, or with another activation."""

    def __init__(self, width: int, inner: int, activation: str = "relu", dropout: float = 0.0):
        super().__init__()
        if activation not in ACTIVATIONS:
            raise UserError(f"model.activation: no '{activation}'{suggestion(activation, ACTIVATIONS)}")
        self.inward = nn.Linear(width, inner)
        self.activation = ACTIVATIONS[activation]()
        self.dropout = nn.Dropout(dropout)
        self.outward = nn.Linear(inner, width)
        for linear in (self.inward, self.outward):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        return self.outward(self.dropout(self.activation(self.inward(x))))
