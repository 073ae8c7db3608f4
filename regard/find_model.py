"""A model's folder by its name, and the recipe in it, without loading the model."""

from __future__ import annotations

from pathlib import Path

from regard.config import Recipe, recipe_from_toml
from regard.errors import UserError, suggestion
from regard.pretrained import shipped_models
from regard.storage import Folder


def find_model(name: str | Path) -> Path:
    """The folder of a shipped model, a model folder itself, or that of a run (final model, else newest checkpoint)."""
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
    if path.is_dir():
        raise UserError(f"{path}: no model in this folder (no manifest.json); give a model folder or a run")
    raise UserError(f"no model '{name}'{suggestion(str(name), shipped_models())} (or the path of a model folder)")


def read_recipe_of(folder: Folder) -> Recipe:
    """The recipe of a model folder."""
    where = f"{folder.path}/recipe.toml"
    try:
        text = folder.read("recipe.toml").decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{where}: not UTF-8 text: {error}") from None
    return recipe_from_toml(text, where)
