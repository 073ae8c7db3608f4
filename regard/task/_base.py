"""The interface of tasks: how data are prepared for a model, and how it is scored and used.

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
    """The data as training needs them."""

    codec: Codec
    stream: BatchStream
    valid: Any
    """What `judge` takes; may be empty."""


class Task(ABC):
    """A model with its codec and recipe, ready to use. The command of the task's name uses it."""

    usual: ClassVar[dict[str, Any]] = {}
    """Defaults of a recipe's `model` section."""
    unit: ClassVar[str] = "examples"
    """What the loss is averaged over, in words."""
    usage: ClassVar[str] = ""
    """The command line after `regard`, with `{model}` for the model."""
    scores: ClassVar[dict[str, Better]] = {}
    """Every score that `judge` may give, and whether higher or lower is better. Some depend on the data:
    `nll_per_step` is of music, `percent` of series that are never 0. `training.metric` may name any of them."""
    public: ClassVar[tuple[str, ...]] = ()
    """Names for tab completion, besides PUBLIC and the method of the task's name."""

    recipe: Recipe
    device: torch.device
    model: Any
    folder: Path | None = None
    """The model folder that it was loaded from."""

    def __dir__(self) -> list[str]:
        """What a user needs, without what training calls."""
        return sorted({*PUBLIC, self.recipe.task, *self.public} & {*object.__dir__(self)})

    @classmethod
    def scores_of(cls, recipe: Recipe) -> Mapping[str, Better]:
        """`scores`, with those that only the validation data of a recipe give."""
        return cls.scores

    @classmethod
    @abstractmethod
    def codec(cls, recipe: Recipe, files: Mapping[str, bytes]) -> Any:
        """Loads the codec from the files of a model folder."""

    @classmethod
    @abstractmethod
    def resolve(cls, recipe: Recipe) -> Recipe:
        """Completes the recipe's data settings; refuses what cannot work, before anything is written."""

    @classmethod
    @abstractmethod
    def prepare(cls, recipe: Recipe, place: Path, known: Mapping[str, bytes], same: bool, note: Note) -> Prepared:
        """Reads the data. `known` are codec files to reuse: those of the resumed run or, unless `same`, of a model for
        another task."""

    @abstractmethod
    def __init__(self, recipe: Recipe, codec: Any, model: nn.Module, device: torch.device) -> None: ...

    @abstractmethod
    def judge(self, valid: Any) -> Validation:
        """The scores on validation examples, the main one first."""

    @abstractmethod
    def inputs(self, valid: Any) -> list[Any]:
        """The inputs of examples such as `judge` takes, as the method of the task's name takes them."""

    def learn_errors(self, valid: Any) -> bool:
        """Stores the errors of a finished model on validation examples in its codec; True if the task does so."""
        return False

    @classmethod
    @abstractmethod
    def tests(cls, recipe: Recipe) -> Any:
        """The recipe's test examples."""
