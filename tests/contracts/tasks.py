"""A small model with random weights for every task, by the first shipped recipe for it. A new task is found by itself."""

from pathlib import Path
from typing import Any

import torch

from regard import registry
from regard.assemble import build_model
from regard.config import apply_overrides, read_recipe, shipped_recipes, tiny_form
from regard.loading import task_of
from regard.runs import prepare, resolve

SMALL = ["data.format.count=60", "decoding.max_length=6", "decoding.beam=2"]
RECIPES: dict[str, str] = {}
"""The first recipe of each task."""
for _name in shipped_recipes():
    RECIPES.setdefault(read_recipe(_name).task, _name)
KINDS = registry.kinds("task")


class Tasks:
    """Tasks by name, each with its codec and test examples; made on first use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._made: dict[str, tuple[Any, Any, Any]] = {}

    def __call__(self, name: str, form: str = "") -> tuple[Any, Any, Any]:
        form = form or RECIPES[name]
        if form not in self._made:
            torch.manual_seed(3)
            recipe = resolve(apply_overrides(tiny_form(read_recipe(form)), SMALL))
            codec = prepare(recipe, self.folder / form).codec
            model = build_model(recipe.model, **codec.sizes())
            task = task_of(recipe)(recipe, codec, model, torch.device("cpu"))
            self._made[form] = task, codec, task.tests(recipe)[:12]
        return self._made[form]
