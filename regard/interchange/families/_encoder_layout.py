"""The names and sizes in which encoders of transformers differ, as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Names:
    """Their names of the parts of a layer and of the heads, without `.weight` and `.bias`."""

    embeddings: str
    layer: str
    """With {} for its number."""
    attention: tuple[str, str, str, str]
    """Query, key, value, output."""
    attention_norm: str
    feed_forward: tuple[str, str]
    feed_forward_norm: str
    fill: tuple[str, str]
    """The dense layer and the norm."""
    output: str
    """The layer over the vocabulary."""
    output_bias: str
    classify: tuple[str, str]
    """The dense layer and the output layer."""
    tag: str = "classifier"


@dataclass(frozen=True)
class Shape:
    """The sizes of a config."""

    width: int
    layers: int
    heads: int
    feed_forward: int
    activation: str
    epsilon: float
    positions: int
    """Rows of the table of positions."""
    dropout: float
    attention_dropout: float
    kinds: int = 0
    """Rows of the table of segments; 0: there is none."""
    skip: int = 0
    """Rows at the start of the positions that no text reaches."""
