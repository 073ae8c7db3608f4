"""Reads an Argos package (`.argosmodel`): a zip of a CTranslate2 folder, a sentencepiece model and metadata.json.

Only the files that are needed are unpacked, under names of our own, each within limits. The package's sentence splitter
is not used: texts are split as for every translator here.
"""

from __future__ import annotations

import json
import lzma
import re
import shutil
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.config import Languages
from regard.errors import UserError
from regard.interchange.imported import Imported
from regard.interchange.read import ctranslate2
from regard.languages import internal, is_code
from regard.regular_files import open_regular

__all__ = ["read"]

_SMALL, _LARGE = 64_000_000, 8_000_000_000
WANTED = {
    "model/model.bin": _LARGE,
    "model/config.json": _SMALL,
    **{f"model/{side}_vocabulary.{end}": _SMALL for side in ("shared", "source", "target") for end in ("json", "txt")},
    "sentencepiece.model": _SMALL,
}
"""What is unpacked, with the most bytes that each may have."""
LONGEST = 150
"""Tokens of the longest sentences that Argos's models are trained on."""
_METADATA = "metadata.json"
_MOST_FILES = 10_000
_MOST_METADATA = 1_000_000
_RATIO = 100
"""How many times its compressed size a file may have; weights shrink by a half at most, vocabularies by five times."""
_ROOT = re.compile(r"(?:[^/]{1,200}/){0,3}")
_DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError, EOFError, RuntimeError, ValueError, IndexError)
"""Raised by damaged archives; encrypted ones raise a RuntimeError."""


def read(file: Path, note: Callable[[str], None]) -> Imported:
    """The model of a package, with the languages that it states."""
    file = Path(file)
    with tempfile.TemporaryDirectory(prefix="regard-argos-") as place:
        folder = Path(place)
        metadata = _unpack(file, folder)
        found = ctranslate2.read(folder, note)
    source, target = (_language(metadata, key, file) for key in ("from_code", "to_code"))
    data = replace(found.recipe.data, max_length=min(found.recipe.data.max_length, LONGEST))
    recipe = replace(found.recipe, source_language=source, target_language=target, data=data)
    if prefix := _text(metadata, "target_prefix", file):
        if prefix not in found.tokenizer.target.names(range(len(found.tokenizer.target))):
            raise UserError(f"{file}: its target_prefix {prefix[:40]!r} is no token of the model")
        recipe.languages = Languages([source], [target], target_tag="output", tags={target: prefix})
    version = _text(metadata, "package_version", file)
    notes = [*found.notes, *([f"Argos package, version {version[:40]}."] if version else [])]
    return replace(found, recipe=recipe, family="argos", notes=notes)


def _text(metadata: dict[str, Any], key: str, file: Path) -> str:
    value = metadata.get(key, "")
    if value is None:
        return ""
    if not isinstance(value, str) or not value.isprintable():
        raise UserError(f"{file}: {key} in its metadata.json is not a line of text")
    return value


def _language(metadata: dict[str, Any], key: str, file: Path) -> str:
    code = _text(metadata, key, file)
    if not is_code(code):
        raise UserError(f"{file}: {key} in its metadata.json is {code[:20]!r}, not the code of one language")
    return internal(code)


def _unpack(file: Path, folder: Path) -> dict[str, Any]:
    """Unpacks what is wanted into the folder; returns the metadata."""
    try:
        with open_regular(file) as stream, zipfile.ZipFile(stream) as package:
            members = package.infolist()
            if len(members) > _MOST_FILES:
                raise UserError(f"{file}: holds {len(members):,} files; {_MOST_FILES:,} are the most")
            found = _members(members, file)
            metadata = package.read(found[_METADATA])
            if _type(parsed := _parsed(metadata, file)) != "translate":
                raise UserError(
                    f"{file}: is an Argos package of the type {_type(parsed)[:20]!r}; only translate is read"
                )
            if "model/model.bin" not in found:
                raise UserError(f"{file}: there is no model/model.bin in it; take another copy of the package")
            if "sentencepiece.model" not in found:
                why = "its words are cut by bpe.model" if "bpe.model" in found else "it has no sentencepiece.model"
                raise UserError(f"{file}: {why}, and Regard reads packages with a sentencepiece.model")
            for name in WANTED.keys() & found.keys():
                with package.open(found[name]) as packed, (folder / name.rpartition("/")[2]).open("wb") as out:
                    shutil.copyfileobj(packed, out, 1 << 20)  # yields no more than the size in the listing
    except _DAMAGED as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{file}: cannot be read as a zip ({' '.join(str(error).split())[:100]})") from None
    return parsed


def _members(members: list[zipfile.ZipInfo], file: Path) -> dict[str, zipfile.ZipInfo]:
    """The wanted members by their name below the folder that holds metadata.json."""
    roots = [m.filename.removesuffix(_METADATA) for m in members if m.filename.endswith(_METADATA)]
    roots = sorted((root for root in roots if _ROOT.fullmatch(root)), key=len)
    if not roots or len(roots) > 1 and len(roots[0]) == len(roots[1]):
        raise UserError(f"{file}: is no Argos package; it has no metadata.json, or several")
    found: dict[str, zipfile.ZipInfo] = {}
    limits = {_METADATA: _MOST_METADATA, "bpe.model": _LARGE, **WANTED}
    for member in members:
        name = member.filename.removeprefix(roots[0])
        if not member.filename.startswith(roots[0]) or name not in limits:
            continue
        mode = member.external_attr >> 16
        if name in found:
            raise UserError(f"{file}: {name!r} is in it twice; take another copy")
        if member.is_dir() or (stat.S_IFMT(mode) and not stat.S_ISREG(mode)):
            raise UserError(f"{file}: {name!r} is a link or a folder, not a file")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise UserError(f"{file}: {name!r} is compressed in an unusual way; pack it again with zip")
        if member.file_size > min(limits[name], _RATIO * member.compress_size + _MOST_METADATA):
            raise UserError(f"{file}: {name!r} would unpack to {member.file_size:,} bytes, more than it may have")
        found[name] = member
    return found


def _parsed(content: bytes, file: Path) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UserError(f"{file}: its metadata.json is not a JSON object; take another copy")
    return found


def _type(metadata: dict[str, Any]) -> str:
    """What the package does; packages without a type translate."""
    return str(metadata.get("type") or "translate")
