"""The interface of every task: how a model of its kind is prepared, scored and used. Its command has the same name.

`Task` is what saving, loading and training know; tasks whose data are examples in memory share `_examples.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn

from regard.config import Recipe
from regard.data.codec import Codec
from regard.types import BatchStream, Better, Validation

Note = Callable[[str], None]
Progress = Callable[[int], None]
PUBLIC = ("device", "inspect", "judge", "model", "recipe")


@dataclass
class Prepared:
    """What training needs of the data."""

    codec: Codec
    stream: BatchStream
    valid: Any
    """What `judge` takes; nothing to validate on when empty."""


class Task(ABC):
    """A model with all that is needed to use it."""

    usual: ClassVar[dict[str, Any]] = {}
    """What the `model` section says where a recipe does not."""
    unit: ClassVar[str] = "examples"
    """What a loss is averaged over, as people call it."""
    usage: ClassVar[str] = ""
    """How the command is written after `regard`, `{model}` standing for the model."""
    scores: ClassVar[dict[str, Better]] = {}
    """Every score that `judge` may give, and whether higher or lower is better. Some depend on the data:
    `nll_per_step` is of music, `percent` of series that are never 0. `training.metric` may name any of them."""
    public: ClassVar[tuple[str, ...]] = ()
    """What tab completion offers beside the method that is named as the task is, and PUBLIC."""

    recipe: Recipe
    device: torch.device
    model: Any

    def __dir__(self) -> list[str]:
        """What a user needs: not what training calls."""
        return sorted(name for name in {*PUBLIC, self.recipe.task, *self.public} if hasattr(self, name))

    @classmethod
    @abstractmethod
    def codec(cls, recipe: Recipe, files: Mapping[str, bytes]) -> Any:
        """What goes between raw examples and the weights, from the files of a model folder."""

    @classmethod
    @abstractmethod
    def settle(cls, recipe: Recipe) -> Recipe:
        """The recipe with nothing about its data left open; refuses what cannot work before anything is written."""

    @classmethod
    @abstractmethod
    def prepare(cls, recipe: Recipe, place: Path, known: Mapping[str, bytes], same: bool, note: Note) -> Prepared:
        """Reads the data. `known` are codec files to go on with: a resumed run's own or, unless `same`, those of a
        model for another task."""

    @abstractmethod
    def __init__(self, recipe: Recipe, codec: Any, model: nn.Module, device: torch.device) -> None: ...

    @abstractmethod
    def judge(self, valid: Any) -> Validation:
        """The scores on examples that were not trained on, the one that counts first."""

    def learn_errors(self, valid: Any) -> bool:
        """Keeps in its codec how wrong a finished model is on examples it was not trained on; True if there is such."""
        return False

    @classmethod
    @abstractmethod
    def tests(cls, recipe: Recipe) -> Any:
        """What the recipe says the finished model is to be judged on."""
