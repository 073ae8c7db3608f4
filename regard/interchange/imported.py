"""What a reader of a foreign format returns: everything that a model folder is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from regard.config import Recipe
from regard.data.codec import Codec
from regard.data.tokenizer._base import Tokenizer

if TYPE_CHECKING:
    from torch import Tensor


@dataclass
class Imported:
    """A foreign model in our terms. The ids of its vocabulary are renumbered so that the special ones are 0 to 3."""

    recipe: Recipe
    """Complete: the model section is resolved."""
    codec: Codec
    """Tokenizer, labels, how pictures or sound are read: whatever the recipe's task needs."""
    weights: dict[str, Tensor]
    """By our names, with shapes as `build_model(recipe.model, **codec.sizes())` has them."""
    family: str
    """marian, m2m100, bart, t5, ctranslate2, bert, ..."""
    licence: str = ""
    """As the source states it; empty if it states none."""
    notes: list[str] = field(default_factory=list)
    """What was read but is not applied (such as a generation setting), a sentence each, for the card."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The codec of a model that needs nothing else, such as a translator."""
        assert isinstance(self.codec, Tokenizer)
        return self.codec
