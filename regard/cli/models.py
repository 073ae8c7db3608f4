"""`regard models`: what is here to translate with."""

from __future__ import annotations

import typer


def models() -> None:
    """List the models that ship with the package."""
    from regard.config import read_recipe
    from regard.pretrained import shipped_models

    for name, folder in shipped_models().items():
        recipe = read_recipe(folder)
        size = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
        typer.echo(f"{name}  {recipe.source_language} to {recipe.target_language}, {size:.1f} MB, {folder}")
    if not shipped_models():
        typer.echo("no models are shipped with this installation")


def model_names() -> list[str]:
    """For shell completion."""
    from regard.pretrained import shipped_models

    return list(shipped_models())
