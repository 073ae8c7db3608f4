"""A model's folder by its name, and the recipe in it, without loading the model."""

from __future__ import annotations

import copy
from functools import lru_cache
from pathlib import Path

from regard.config import Recipe, recipe_from_toml
from regard.errors import UserError, suggestion
from regard.pretrained import shipped_models
from regard.storage import Folder, read_folder


def find_model(name: str | Path) -> Path:
    """The folder of a shipped or imported model, a model folder itself, or that of a run (final model, else newest
    checkpoint). `hf:NAME`, a model of the Hugging Face hub, is imported when it is used for the first time."""
    path = Path(name)
    if (path / "manifest.json").is_file():
        return path
    if (path / "model" / "manifest.json").is_file():
        return path / "model"
    steps = sorted((path / "checkpoints").glob("step-*")) if path.is_dir() else []
    if steps:
        return steps[-1]
    if str(name) in shipped_models():
        return shipped_models()[str(name)]
    from regard.imported_models import import_on_first_use, imported_models, is_hub_source  # here: most need none of it

    if is_hub_source(str(name)):
        return import_on_first_use(str(name))
    imported = imported_models()
    if str(name) in imported:
        return imported[str(name)]
    if path.is_dir():
        raise UserError(f"{path}: no model in this folder (no manifest.json); give a model folder or a run")
    raise UserError(
        f"no model '{name}'{suggestion(str(name), [*shipped_models(), *imported])} (or the path of a model folder)"
    )


def read_recipe_of(folder: Folder) -> Recipe:
    """The recipe of a model folder."""
    where = f"{folder.path}/recipe.toml"
    try:
        text = folder.read("recipe.toml").decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{where}: not UTF-8 text: {error}") from None
    return copy.deepcopy(_parsed(text, where))


def recipe_of_translator(name: str | Path) -> Recipe:
    """The recipe of a translator, without its weights. Models made for anything else are refused."""
    recipe = read_recipe_of(read_folder(find_model(name), hash_tensors=False))
    if recipe.task != "translate":
        raise UserError(f"{name}: this model is made to {recipe.task}, not to translate; use: regard {recipe.task}")
    return recipe


@lru_cache(maxsize=8)
def _parsed(text: str, where: str) -> Recipe:
    """A command asks for the recipe of its model several times, and checking it takes some 5 ms."""
    return recipe_from_toml(text, where)
