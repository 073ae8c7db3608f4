"""The logit lens as plain data: what a model would write after each layer."""

from __future__ import annotations

from dataclasses import dataclass

from regard.inspection.trace.next_token import Option


@dataclass
class LensLayer:
    """One layer's state, projected to the vocabulary, at every position."""

    name: str
    likeliest: list[list[Option]]
    """The most likely tokens at each position, most likely first."""
    probabilities: list[float]
    """The probability of each token that the model wrote in the end."""
    ranks: list[int]
    """The rank of this token among all, from 1."""


@dataclass
class LogitLens:
    """All layers in the order of computation; the last one is the model's own output."""

    read: list[str]
    """The decoder's input at each position."""
    written: list[str]
    """The token that the model wrote there."""
    layers: list[LensLayer]

    def settled(self) -> list[str]:
        """For each position, the name of the first layer from which on the written token is the likeliest."""
        found = []
        for position in range(len(self.written)):
            name = ""
            for layer in reversed(self.layers):
                if layer.ranks[position] != 1:
                    break
                name = layer.name
            found.append(name)
        return found
