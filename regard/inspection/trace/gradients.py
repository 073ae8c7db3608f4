"""Gradients of one output's log-probability through time: token embeddings and recurrent states, as plain data.

record/gradients.py computes them, draw/gradients.py draws them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass
class Track:
    """The gradient norms with respect to one quantity, at every token."""

    path: str
    what: str
    """`vector`: the token's embedding; `hidden`, `cell`: the state of a recurrent layer after the token."""
    side: str
    """SOURCE or TARGET: whose tokens."""
    norms: np.ndarray
    """(tokens,), in the order of the text."""
    layer: int = 0
    backwards: bool = False

    @property
    def title(self) -> str:
        if self.what == "vector":
            return "token embedding"
        return f"layer {self.layer} {self.what}{', backwards' if self.backwards else ''}"


@dataclass
class Gradients:
    """The gradients of the log-probability of one output."""

    position: int
    """The index of the output."""
    token: str
    log_probability: float
    tracks: list[Track] = field(default_factory=list)
