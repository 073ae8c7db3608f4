"""Exports a Transformer for CTranslate2, a C++ inference engine: the same weights, vocabulary and special tokens.

Search and its rules are not exported: CTranslate2 has its own.
"""

from __future__ import annotations

from pathlib import Path

from regard.engines.ctranslate2.limits import why_not
from regard.engines.ctranslate2.loading import convert_folder, read_tokenizer
from regard.errors import UserError
from regard.find_model import find_model, read_recipe_of
from regard.interchange.write._whole_folder import whole_folder
from regard.storage import read_folder

__all__ = ["export"]


def export(name: str | Path, folder: str | Path, precision: str = "int8") -> Path:
    """Writes a model and its tokenizer into a new folder that `ctranslate2.Translator` loads."""
    origin = read_folder(find_model(name))
    recipe = read_recipe_of(origin)
    if why := why_not(recipe):
        raise UserError(f"{name}: {why}")
    tokenizer = read_tokenizer(origin)
    with whole_folder(Path(folder)) as place:
        with (place / "model.bin").open("wb") as out:
            files = convert_folder(origin.path, recipe, tokenizer, out, precision, exactly=True)
        for file, content in {**files, **tokenizer.files()}.items():
            (place / file).write_bytes(content)
    return Path(folder)
