"""Back-propagation through time for the plain recurrent network, spelled out as lectures derive it.

    a_t = b + W h_{t-1} + U x_t      h_t = tanh(a_t)      o_t = c + V h_t      y_t = softmax(o_t)
    L = sum over t of -log y_t[target_t]

One sentence, plain tensors, no autograd: a dozen lines that can be checked by hand.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Weights:
    """The five parameters, named as in the lecture; also used for their gradients."""

    U: Float[Tensor, "W I"]
    W: Float[Tensor, "W W"]
    b: Float[Tensor, " W"]
    V: Float[Tensor, "K W"]
    c: Float[Tensor, " K"]


@dataclass(frozen=True)
class Passed:
    """Values of the forward pass that the backward pass needs."""

    x: Float[Tensor, "T I"]
    h: Float[Tensor, "T W"]
    y: Float[Tensor, "T K"]


@dataclass(frozen=True)
class Gradient:
    """The gradient of the loss, with its intermediate values."""

    total: Weights
    """With respect to each weight: the sum over t of its contributions."""
    o: Float[Tensor, "T K"]
    """dL/do_t."""
    h: Float[Tensor, "T W"]
    """dL/dh_t, through everything that comes after t."""
    a: Float[Tensor, "T W"]
    """dL/da_t."""

    @property
    def norms(self) -> Float[Tensor, " T"]:
        """The norm of dL/dh_t at each step."""
        return self.h.norm(dim=1)


def forward(weights: Weights, x: Float[Tensor, "T I"]) -> Passed:
    """The forward pass over a sentence, from a zero state."""
    h = [torch.zeros_like(weights.b)]
    for x_t in x:
        h.append(torch.tanh(weights.b + weights.W @ h[-1] + weights.U @ x_t))
    states = torch.stack(h[1:])
    return Passed(x, states, torch.softmax(weights.c + states @ weights.V.T, dim=1))


def loss(y: Float[Tensor, "T K"], targets: Int[Tensor, " T"], asked: Bool[Tensor, " T"]) -> Float[Tensor, ""]:
    """The sum of -log y_t[target_t] over the steps that have a target."""
    return -y[torch.arange(len(y)), targets].log()[asked].sum()


def backward(
    weights: Weights, passed: Passed, targets: Int[Tensor, " T"], asked: Bool[Tensor, " T"] | None = None
) -> Gradient:
    """The gradient of the loss; without `asked`, every step has its target."""
    x, h, y = passed.x, passed.h, passed.y
    do = y.clone()
    do[torch.arange(len(y)), targets] -= 1  # softmax and logarithm together: y_t - onehot
    if asked is not None:
        do[~asked] = 0

    dh, da = torch.zeros_like(h), torch.zeros_like(h)
    later = torch.zeros_like(h[0])  # from step t + 1; zero after the last step
    for t in reversed(range(len(x))):
        dh[t] = weights.V.T @ do[t] + later
        da[t] = (1 - h[t] ** 2) * dh[t]  # diag(1 - h_t^2): the slope of tanh
        later = weights.W.T @ da[t]  # multiplied at every step back: why it vanishes or explodes

    each = contributions(Passed(x, h, y), do, da)
    return Gradient(Weights(**{name: steps.sum(dim=0) for name, steps in each.items()}), do, dh, da)


def contributions(passed: Passed, do: Float[Tensor, "T K"], da: Float[Tensor, "T W"]) -> dict[str, Tensor]:
    """The contribution of each step to the gradient of each weight; they add up, as all steps share the weights."""
    before = torch.cat([torch.zeros_like(passed.h[:1]), passed.h[:-1]])  # h_{t-1}
    return {
        "U": da[:, :, None] * passed.x[:, None, :],
        "W": da[:, :, None] * before[:, None, :],
        "b": da,
        "V": do[:, :, None] * passed.h[:, None, :],
        "c": do,
    }
