"""The simpler simple recurrent unit (SSRU; Kim et al. 2019): a recurrence whose gates do not depend on the past.

All products are therefore computed for all positions at once. What is left step by step is c_t = f_t c_{t-1} + u_t, one
small kernel per position, in forward and backward pass alike.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.layers.observable import Observable

Sequence = Float[Tensor, "R T D"]
"""A vector for every position."""


class SSRU(Observable):
    """f_t = sigmoid(W_f x_t + b_f);  c_t = f_t c_{t-1} + (1 - f_t) W x_t;  h_t = relu(c_t)."""

    def __init__(self, width: int):
        super().__init__()
        self.inward = nn.Linear(width, 2 * width)  # W_f and W stacked; a bias for both, where the paper has only b_f
        for matrix in self.inward.weight.chunk(2):
            nn.init.xavier_uniform_(matrix)
        nn.init.zeros_(self.inward.bias)

    def forward(self, x: Sequence, state: Float[Tensor, "R D"]) -> tuple[Sequence, Float[Tensor, "R D"]]:
        """h at every position and the last c. Computed in the type of `state`: bfloat16 has no forget gate of 0.999."""
        forget, candidate = self.inward(x).to(state.dtype).chunk(2, dim=-1)
        forget, candidate = self.edited("forget", forget.sigmoid()), self.edited("candidate", candidate)
        cell = linear_recurrence(forget, (1 - forget) * candidate, state)
        if self.observer:
            for name, value in {"forget": forget, "candidate": candidate, "cell": cell}.items():
                self.observer(name, value)
        return cell.relu().to(x.dtype), cell[:, -1]


def linear_recurrence(factor: Sequence, added: Sequence, first: Float[Tensor, "R D"]) -> Sequence:
    """c_t = factor_t c_{t-1} + added_t at every position t, with c_{-1} = `first`."""
    if factor.shape[1] == 1:
        return torch.addcmul(added, factor, first[:, None])
    return _linear_recurrence(factor, added, first)


# An operator of its own: torch.compile would otherwise unroll the loop and compile it again for every length.
@torch.library.custom_op("regard::linear_recurrence", mutates_args=())
def _linear_recurrence(factor: Tensor, added: Tensor, first: Tensor) -> Tensor:
    states = torch.empty_like(added, memory_format=torch.contiguous_format)
    state = first
    for t in range(states.shape[1]):
        state = torch.addcmul(added[:, t], factor[:, t], state, out=states[:, t])
    return states


@_linear_recurrence.register_fake
def _(factor: Tensor, added: Tensor, first: Tensor) -> Tensor:
    return torch.empty_like(added, memory_format=torch.contiguous_format)


def _save(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    factor, _, first = inputs
    ctx.save_for_backward(factor, first, output)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradient of c is the same recurrence, from last to first: g_t = factor_{t+1} g_{t+1} + grad_t."""
    factor, first, states = ctx.saved_tensors
    following = F.pad(factor[:, 1:], (0, 0, 0, 1))
    total = _linear_recurrence(following.flip(1), grad.flip(1), torch.zeros_like(first)).flip(1)
    previous = torch.cat([first[:, None], states[:, :-1]], 1)
    return total * previous, total, factor[:, 0] * total[:, 0]


_linear_recurrence.register_autograd(_backward, setup_context=_save)
