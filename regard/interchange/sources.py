"""`import_model`: a model in a foreign format, from a file, a folder or the hub, as an ordinary model folder.

The readers (read/) turn files into our recipe, tokenizer and weights. What they need to be given, where the result goes
and what it says about its origin is decided here.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from regard import registry
from regard.atomic_files import temporary_name
from regard.errors import UserError
from regard.imported_models import (
    ORIGIN,
    Origin,
    directions_of,
    hub_name,
    imported_folder,
    in_turn,
    is_hub_source,
    read_origin,
)
from regard.interchange import hub
from regard.languages import internal, name, split_pair
from regard.pretrained import CARD, shipped_models
from regard.regular_files import open_regular, read_regular
from regard.safetensors_header import read_header
from regard.storage import MANIFEST, WEIGHTS, write_folder
from regard.terminal_text import escape_control_characters, one_line

if TYPE_CHECKING:
    from torch import Tensor

    from regard.config import Recipe
    from regard.interchange.imported import Imported

CONFIG_LIMIT = 16_000_000
MANY_LANGUAGES = 12
"""A card lists no more languages than this."""
MUCH_MEMORY = 2_000_000_000
"""Bytes of memory from which an import says how much it takes."""
_ZIP, _GGUF = b"PK\x03\x04", b"GGUF"
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._-]+")


class Found(NamedTuple):
    """The files of a source, and what is known about them beside."""

    path: Path
    commit: str = ""
    licence: str = ""


def import_model(
    source: str | Path,
    output: str | Path | None = None,
    *,
    precision: str = "",
    source_language: str = "",
    target_language: str = "",
    note: hub.Note = lambda text: None,
    show: hub.Show = lambda done, total, what: None,
) -> Path:
    """Makes a model folder of a model in another program's format.

    Args:
        source: A model of the Hugging Face hub (`hf:NAME` or `hf:NAME@REVISION`), a folder of Hugging Face or of
            CTranslate2, an Argos package (a .argosmodel file) or a GGUF file.
        output: The folder to create. By default the model is kept in the cache of imported models, under its name.
        precision: How weights are stored: "float32", "bfloat16" or "int8"; by default as they are, but float16 as
            bfloat16.
        source_language: The source language, for a translator whose files do not state it.
        target_language: The target language, likewise.
        note: Called with a line about what happens.
        show: Called with the progress of a download: bytes so far, bytes in total, what.

    Returns:
        The folder. A model of the hub that is there already is not imported again.
    """
    given = str(source)
    if is_hub_source(given):
        plain = hub_name(given).plain
    else:
        detect(Path(source))  # before anything is made
        file = Path(source).resolve().name.removesuffix(".argosmodel").removesuffix(".gguf")
        plain = _NOT_PLAIN.sub("-", file).strip("-.") or "model"

    def write(folder: Path) -> Path:
        try:
            with _files(given, note, show) as found:
                imported = _read(found, note)
                return _write(folder, given, found, imported, precision, source_language, target_language, note)
        except UserError as error:
            raise UserError(_about(given, str(error))) from error.__cause__
        except Exception as error:  # a file in a form that nobody thought of
            why = escape_control_characters(one_line(str(error) or type(error).__name__))[:160]
            raise UserError(f"{given}: cannot be imported ({why})") from error

    if output is not None:
        if Path(output).exists():
            raise UserError(f"{output} already exists; choose another folder")
        return write(Path(output))
    folder = imported_folder() / plain
    if plain in shipped_models():
        raise UserError(f"{given}: a shipped model is called {plain}; name a folder for this one with -o FOLDER")
    with in_turn(plain, note):
        if (folder / MANIFEST).is_file():
            if not is_hub_source(given):
                raise UserError(
                    f"{given}: an imported model is called {plain} already; remove it (regard models remove {plain}) "
                    "or name a folder with -o FOLDER"
                )
            if precision in ("", read_origin(folder).precision) and not (source_language or target_language):
                note(f"{given} is imported already: {folder}")
                return folder
        return write(folder)


def _about(source: str, message: str) -> str:
    """A message that names the source as the user did, and no temporary folder."""
    for place in {tempfile.gettempdir(), str(imported_folder())}:
        message = re.sub(rf"{re.escape(place)}/\.?(files|regard)[^/ ]*/?", "", message)
    return message if source in message else f"{source}: {message}"


def detect(path: Path) -> str:
    """The reader for a file or folder, by what is in it."""
    if path.is_dir():
        names = set(os.listdir(path))
        if MANIFEST in names and "recipe.toml" in names:
            raise UserError(f"{path} is a model folder of Regard already; use it as it is")
        config = _config(path) if "config.json" in names else {}
        if isinstance(config.get("model_type"), str):
            return "hugging_face"
        if "model.bin" in names and any("vocabulary" in one for one in names):
            return "ctranslate2"
        if "config.json" in names:
            raise UserError(
                f"{path}: config.json states no model_type, and there is no model.bin of CTranslate2 either"
            )
        raise UserError(
            f"{path}: no model that can be imported (no config.json); give a folder of Hugging Face or CTranslate2"
        )
    if not path.exists():
        raise UserError(f"{path} does not exist; give hf:NAME, a folder, or a .argosmodel or .gguf file")
    try:
        with open_regular(path) as file:
            first = file.read(4)
        if first == _ZIP:
            return "argos"
        if first == _GGUF:
            return "gguf"
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None
    raise UserError(
        f"{path}: not an Argos package (a zip file) and not a GGUF file; give hf:NAME, a folder, or one of these"
    )


def _config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    _refuse_link(path)
    try:
        found = json.loads(read_regular(path, CONFIG_LIMIT))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (ValueError, RecursionError):
        raise UserError(f"{path}: not valid JSON; take another copy of the folder") from None
    if not isinstance(found, dict):
        raise UserError(f"{path}: not a JSON object; take another copy of the folder")
    return found


@contextlib.contextmanager
def _files(source: str, note: hub.Note, show: hub.Show) -> Iterator[Found]:
    """The files of a source for its reader: none of them is a link."""
    if is_hub_source(source):
        with _temporary() as folder:
            fetched = hub.fetch(hub_name(source), folder, note, show)
            yield Found(fetched.folder, fetched.commit, fetched.licence)
        return
    path = Path(source)
    links = [one for one in path.iterdir() if one.is_symlink()] if path.is_dir() else []
    if not links:
        yield Found(path)
        return
    with _temporary() as folder:
        _resolve(path, folder)
        yield Found(folder)


def _resolve(folder: Path, into: Path) -> None:
    """The files of a folder with links, as regular files in another."""
    for path in folder.iterdir():
        if path.name in hub.KNOWN:
            _refuse_link(path)
        if path.is_file() and not _leads_elsewhere(path):
            hub.place(path, into / path.name)


def _refuse_link(path: Path) -> None:
    if _leads_elsewhere(path):
        raise UserError(f"{path} is a link to a file elsewhere; put a copy of the file in its place")


def _leads_elsewhere(path: Path) -> bool:
    """Whether a file is a link out of its folder, which could name any file of this machine.

    The hub's cache is the exception: the files of a snapshot are links into `blobs` beside its parent.
    """
    folder = path.parent.resolve()
    return path.is_symlink() and path.resolve().parent not in (folder, folder.parent.parent / "blobs")


@contextlib.contextmanager
def _temporary() -> Iterator[Path]:
    """A folder for a while; beside the imported models where that is possible, so that files can be linked there."""
    folder = imported_folder() / temporary_name("files")
    try:
        folder.mkdir(parents=True)
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="regard-import-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _memory(folder: Path) -> int:
    """Bytes of memory that reading a folder's weights may take: 8 for each of them, as measured."""
    total = 0
    names = hub.needed(os.listdir(folder)) if folder.is_dir() else []
    for path in map(folder.joinpath, names):
        if path.suffix == ".safetensors":
            total += 8 * sum(math.prod(tensor.shape) for tensor in read_header(path).tensors.values())
        elif path.suffix == ".bin" and path.is_file():
            total += (8 if path.name == "model.bin" else 2) * path.stat().st_size  # of CTranslate2: perhaps int8
    return total


def _read(found: Found, note: hub.Note) -> Imported:
    if (memory := _memory(found.path)) > MUCH_MEMORY:
        note(f"reading the weights takes up to {memory / 1e9:.0f} GB of memory")
    read = cast(Callable[[Path, hub.Note], "Imported"], registry.factory("interchange/read", detect(found.path)))
    return read(found.path, note)


def _write(
    folder: Path,
    source: str,
    found: Found,
    imported: Imported,
    precision: str,
    source_language: str,
    target_language: str,
    note: hub.Note,
) -> Path:
    from regard.config import to_toml
    from regard.loading import check_fits
    from regard.weights import write_weights

    recipe = imported.recipe
    if recipe.task == "translate":
        recipe = _with_languages(recipe, source, source_language, target_language)
    elif source_language or target_language:
        raise UserError(f"{source}: languages are for models that translate; this one is made to {recipe.task}")
    check_fits(recipe, imported.codec, imported.weights, source)
    if not precision:
        precision, why = _precision(imported.weights)
        if why:
            note(why)
            imported.notes.append(why)
    parameters = sum(tensor.numel() for tensor in imported.weights.values())
    origin = Origin(
        source=source if is_hub_source(source) else _one(Path(source).name),
        revision=found.commit,
        family=imported.family,
        licence=_one(found.licence or imported.licence)[:100],
        precision=precision,
        parameters=parameters,
    )
    write_folder(
        folder,
        {
            "recipe.toml": to_toml(recipe).encode(),
            **imported.codec.files(),
            ORIGIN: (json.dumps(origin._asdict(), indent=1) + "\n").encode(),
            WEIGHTS: lambda path: write_weights(path, imported.weights, origin.precision, source),
        },
        {CARD: card(folder.name, recipe, origin, imported.notes).encode()},
    )
    return folder


def _with_languages(recipe: Recipe, source: str, source_language: str, target_language: str) -> Recipe:
    """The recipe with the languages that were given, or else, where it states none, with those of the source's name."""
    if recipe.languages.source or recipe.languages.target:
        if source_language or target_language:
            raise UserError(f"{source}: translates between many languages; choose two of them when you translate")
        return recipe
    pair = None
    if not (recipe.source_language or recipe.target_language):
        words = re.split(r"[^A-Za-z_]+", source.partition("@")[0].rstrip("/").removesuffix(".argosmodel"))[-2:]
        pair = split_pair("-".join(word.lower() for word in words)) if len(words) == 2 else None
    guess = pair or (recipe.source_language, recipe.target_language)
    return replace(
        recipe,
        source_language=internal(source_language) or guess[0],
        target_language=internal(target_language) or guess[1],
    )


def _precision(weights: dict[str, Tensor]) -> tuple[str, str]:
    """The precision that keeps the weights as they are, or nearly, and what to say about it."""
    from regard.weights import lossless_precision

    exact = lossless_precision(weights)
    if exact == "float16":
        return "bfloat16", "float16 weights are kept as bfloat16, with 3 bits less; --precision float32 keeps all"
    return exact, ""


def card(title: str, recipe: Recipe, origin: Origin, notes: list[str]) -> str:
    """The model card, which people may edit."""
    lines = [
        f"# {title}",
        "",
        f"{_sentence(recipe)}, imported from {origin.source}.",
        "",
        *([f"- Languages: {_languages(recipe)}"] if recipe.task == "translate" else []),
        *([f"- Languages: {_spoken(recipe)}"] if recipe.task == "transcribe" else []),
        f"- Family: {_one(origin.family)}",
        f"- Size: {origin.parameters:,} parameters, kept as {origin.precision}",
        f"- Licence: {origin.licence or 'not stated'}; what counts is what the page of the model says",
        f"- Origin: {origin.source}{f', revision {origin.revision}' if origin.revision else ''}",
    ]
    lines += [f"- Note: {_one(text)}" for text in notes]
    return "\n".join(lines) + "\n"


def _sentence(recipe: Recipe) -> str:
    if recipe.task != "translate":
        return f"A model to {recipe.task}"
    if recipe.source_language and recipe.target_language and not recipe.languages.target:
        return f"{name(recipe.source_language)} to {name(recipe.target_language)}"
    directions = directions_of(recipe)
    return f"A translator ({directions})" if directions else "A translator"


def _languages(recipe: Recipe) -> str:
    sources, targets = recipe.languages.source, recipe.languages.target
    if not (sources or targets):
        return directions_of(recipe) or "not stated; name them with --from and --to"
    same = set(sources) == set(targets)
    listed = [f"{len(codes)} ({_list(codes)})" for codes in ([sources] if same else [sources, targets])]
    return " to ".join(listed)


def _spoken(recipe: Recipe) -> str:
    """The languages of a model that reads sound."""
    spoken, written = recipe.languages.source, recipe.languages.target
    heard = f"{len(spoken)} ({_list(spoken)})" if spoken else name(recipe.source_language) or "not stated"
    return heard + (f"; translates to {', '.join(map(name, written))}" if written else "")


def _list(codes: list[str]) -> str:
    return ", ".join(codes[:MANY_LANGUAGES]) + (", ..." if len(codes) > MANY_LANGUAGES else "")


def _one(text: str) -> str:
    return escape_control_characters(one_line(text))[:300]
