"""Input x gradient (Shrikumar et al. 2017): each vector times the gradient of the output with respect to it."""

from __future__ import annotations

import torch

from regard.inspection.record.attribution._subject import Found, Subject

__all__ = ["input_x_gradient"]


def input_x_gradient(subject: Subject) -> Found:
    """x . d output / d x: what the output would lose if it were linear and x became zero."""
    vectors = {side: own.clone().requires_grad_() for side, own in subject.vectors.items()}
    (values,) = subject(vectors)
    rows = []
    for value in values:
        slopes = torch.autograd.grad(value, list(vectors.values()), retain_graph=True, materialize_grads=True)
        rows.append([(own.detach() * slope)[0].float().sum(-1) for own, slope in zip(vectors.values(), slopes)])
    return Found(subject.by_unit({side: torch.stack(column) for side, column in zip(vectors, zip(*rows))}))
