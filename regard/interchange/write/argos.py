"""Exports a translator of one direction as an Argos package, which Argos Translate and LibreTranslate install.

A package is a zip: metadata.json, a CTranslate2 model, and one sentencepiece model that takes source texts apart and
puts target texts together. Its users' program splits texts into sentences and searches by rules of its own.
"""

from __future__ import annotations

import json
import tempfile
import zipfile
from pathlib import Path

from regard import languages
from regard.config import Recipe
from regard.data.tokenizer._base import Tokenizer
from regard.directions import is_multilingual, marks
from regard.engines.ctranslate2.limits import why_not
from regard.engines.ctranslate2.loading import convert_folder, read_tokenizer
from regard.errors import UserError
from regard.find_model import find_model, read_recipe_of
from regard.interchange.write._sentencepiece_normaliser import with_normaliser
from regard.storage import read_folder

__all__ = ["export"]

SUFFIX = ".argosmodel"
_WRITTEN_FOR = "1.9"
"""The version of Argos Translate that a package names."""


def export(name: str | Path, file: str | Path, precision: str = "int8") -> Path:
    """Writes a model as a new package."""
    file = Path(file)
    if file.suffix != SUFFIX:
        raise UserError(f"{file}: an Argos package ends in {SUFFIX}; name it so")
    origin = read_folder(find_model(name))
    recipe, tokenizer = read_recipe_of(origin), read_tokenizer(origin)
    if why := why_not(recipe) or _why_not(recipe, tokenizer):
        raise UserError(f"{name}: {why}")
    metadata = _metadata(recipe, tokenizer)
    root = f"translate-{metadata['from_code']}_{metadata['to_code']}-{metadata['package_version'].replace('.', '_')}"
    temporary = file.with_name(f".{file.name}.tmp")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=file.parent) as model, zipfile.ZipFile(temporary, "w") as package:
            files = convert_folder(origin.path, recipe, tokenizer, model, precision, exactly=True)  # type: ignore[arg-type]
            with package.open(_entry(f"{root}/model/model.bin"), "w", force_zip64=True) as out:
                model.seek(0)
                while block := model.read(1 << 20):
                    out.write(block)
            contents = {f"model/{one}": content for one, content in files.items()}
            contents["sentencepiece.model"] = _sentencepiece(recipe, tokenizer)
            contents["metadata.json"] = json.dumps(metadata, indent=4, ensure_ascii=False).encode()
            contents["README.md"] = _readme(metadata).encode()
            for one, content in contents.items():
                package.writestr(_entry(f"{root}/{one}"), content, zipfile.ZIP_DEFLATED)
        temporary.replace(file)
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror or error}; choose another place") from error
    finally:
        temporary.unlink(missing_ok=True)
    return file


def _why_not(recipe: Recipe, tokenizer: Tokenizer) -> str:
    """Why an Argos package cannot hold a model that CTranslate2 can run."""
    if is_multilingual(recipe):
        return "an Argos package holds one direction, and this model has several"
    if recipe.languages.source_tag != "none" or recipe.languages.target_tag == "source" or recipe.languages.prefixes:
        return "an Argos package adds nothing to a source, and this model's begin with a tag or a prefix"
    if not all(_pair(recipe)):
        return "it does not state its languages; export it for regard with --from and --to first, and then for argos"
    if tokenizer.kind not in ("subword", "sentencepiece"):
        return f"Argos takes texts apart with sentencepiece; this model's tokenizer is of the kind {tokenizer.kind}"
    if "tokenizer.target.model" in tokenizer.files():
        return "an Argos package has one sentencepiece model, and this model's languages have one each"
    return ""


def _pair(recipe: Recipe) -> tuple[str, str]:
    stated = recipe.languages
    return (
        recipe.source_language or next(iter(stated.source), ""),
        recipe.target_language or next(iter(stated.target), ""),
    )


def _metadata(recipe: Recipe, tokenizer: Tokenizer) -> dict[str, str]:
    source, target = map(languages.internal, _pair(recipe))
    prefix = marks(recipe, tokenizer, source, target).prefix
    return {
        "package_version": "1.0",
        "argos_version": _WRITTEN_FOR,
        "from_code": source,
        "from_name": languages.name(source),
        "to_code": target,
        "to_name": languages.name(target),
        **({"target_prefix": tokenizer.target.names(prefix)[0]} if prefix else {}),
    }


def _sentencepiece(recipe: Recipe, tokenizer: Tokenizer) -> bytes:
    """The sentencepiece model. Texts reach it as they are, so our own normalisation goes into it."""
    files = tokenizer.files()
    if tokenizer.kind == "subword":
        return with_normaliser(files["tokenizer.model"], recipe.data.plain_source)
    return files["tokenizer.source.model"]


def _readme(metadata: dict[str, str]) -> str:
    return f"# {metadata['from_name']} to {metadata['to_name']}\n\nA model for CTranslate2, exported by Regard.\n"


def _entry(name: str) -> zipfile.ZipInfo:
    """Equal models make equal packages: no time of writing."""
    entry = zipfile.ZipInfo(name)
    entry.external_attr = 0o100644 << 16
    return entry
