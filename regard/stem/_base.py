"""The interface of every stem."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from regard.layers.embedding import TokenEmbedding


class Stem(nn.Module, ABC):
    """Raw input and its mask in, a sequence of vectors and their mask out, both batch first."""

    reads: ClassVar[str]
    """The kind of input that it takes: a name in data/input."""
    spells: ClassVar[bool] = False
    """True if text comes with the spelling of its words, as rows of numbers (spelling.py)."""
    cuda_graphable: ClassVar[bool] = False
    """True if a forward pass does the same work for every batch of one shape and never waits for the GPU."""
    width: int
    """The width of the vectors."""
    patch: int = 1
    """How many steps (or pixels per side) of the input make one vector."""
    grid: tuple[int, int] | None = None
    """Rows and columns of an image's vectors, which come row by row; None: the input is no image."""
    longest: int | None = None
    """The longest input that it reads at once, in its steps; None: any length. More is cut off."""
    prepended: int = 0
    """How many vectors come before those of the input, such as a class token."""

    @property
    def token_embedding(self) -> TokenEmbedding | None:
        """The embedding of a stem that reads tokens."""
        return None

    @abstractmethod
    def forward(
        self, source: Shaped[Tensor, "B *input"], mask: Bool[Tensor, "B M"]
    ) -> tuple[Float[Tensor, "B S D"], Bool[Tensor, "B S"]]: ...
