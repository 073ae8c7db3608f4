"""The interface of a family that is no translator: its file makes the recipe, the codec and the table of tensors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import ClassVar

from regard.config import Recipe
from regard.data.codec import Codec
from regard.interchange.families._config import Config
from regard.interchange.families._entry import Entry
from regard.interchange.families._vocabulary import Vocabulary
from regard.interchange.read.foreign_folder import ForeignFolder
from regard.interchange.read.stored_tensors import StoredTensors


@dataclass
class Reading:
    """A folder in our terms, but for its weights."""

    recipe: Recipe
    """Its model section need not be resolved."""
    codec: Codec
    entries: list[Entry]
    """All parameters of the model."""
    vocabulary: Vocabulary | None = None
    """The order of rows that are tokens; None: there are none."""
    unused: Collection[str] = field(default_factory=tuple)
    """Beginnings of the names of tensors that this use of the model does not need."""


class TaskFamily(ABC):
    """One architecture. `variant` is the config's model_type."""

    model_types: ClassVar[Collection[str]]
    architectures: ClassVar[Collection[str]]
    """Class names that a config may state."""

    def __init__(self, variant: str) -> None:
        self.variant = variant

    def name(self, theirs: str) -> str:
        """The name that `entries` uses for a tensor, where a file has another one: an older one, or with a prefix."""
        return theirs

    @abstractmethod
    def read(
        self,
        config: Config,
        generation: Config,
        files: ForeignFolder,
        stored: StoredTensors,
        note: Callable[[str], None],
    ) -> Reading:
        """Refuses by name what a config states and we do not have. Nothing may be made of the size that a config
        states before the shape of a tensor confirms it."""
