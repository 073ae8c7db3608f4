"""Imported models: their names, where they are kept, and the import of one that is used for the first time.

CACHE/imported/NAME/     a model folder with two more files: origin.json and card.md
CACHE/imported/.locks/   a file for each name, held by the process that imports or removes it
"""

from __future__ import annotations

import contextlib
import glob
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from regard.cache_folder import cache_folder
from regard.child_process import child_environment, python_command
from regard.errors import UserError
from regard.locking import hold
from regard.regular_files import read_regular
from regard.terminal_text import escape_control_characters, one_line

if TYPE_CHECKING:
    from regard.config import Recipe

ORIGIN = "origin.json"
HUB = "hf:"
_MAX_ORIGIN = 1_000_000
_PART = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9_-])?"
_HUB_NAME = re.compile(rf"(?P<name>(?:{_PART}/)?{_PART})(?:@(?P<revision>[A-Za-z0-9][A-Za-z0-9_./+-]{{0,127}}))?")
_CHILD = "from regard.cli.import_ import on_first_use; on_first_use()"


class HubName(NamedTuple):
    """A model of the Hugging Face hub, `hf:NAME` or `hf:NAME@REVISION`."""

    name: str
    revision: str
    """A branch, tag or commit; empty for the default branch."""

    @property
    def plain(self) -> str:
        """The name of its imported form, which can be a folder's: Helsinki-NLP--opus-mt-de-en."""
        revision = f"@{self.revision}" if self.revision else ""
        return f"{self.name}{revision}".replace("/", "--")


class Origin(NamedTuple):
    """What origin.json says about an imported model; empty or 0 where it says nothing."""

    source: str = ""
    revision: str = ""
    family: str = ""
    licence: str = ""
    precision: str = ""
    parameters: int = 0


def is_hub_source(source: str) -> bool:
    return source.startswith(HUB)


def hub_name(source: str) -> HubName:
    """The parts of `hf:NAME[@REVISION]`; refuses anything that cannot be a name of the hub."""
    found = _HUB_NAME.fullmatch(source.removeprefix(HUB))
    if not found or ".." in source or "--" in found["name"] or "//" in source:
        shown = escape_control_characters(one_line(source if len(source) <= 80 else f"{source[:77]}..."))
        raise UserError(f"'{shown}' cannot be a model of the hub; write hf:NAME or hf:NAME@REVISION")
    return HubName(found["name"], found["revision"] or "")


def plain_name(model: str) -> str:
    """The name of an imported model, which may be given as `hf:NAME`."""
    return hub_name(model).plain if is_hub_source(model) else model


def imported_folder() -> Path:
    """The folder of all imported models."""
    try:
        return cache_folder() / "imported"
    except RuntimeError as error:
        raise UserError(f"there is no cache folder ({error}); set REGARD_CACHE to a folder") from None


def imported_models() -> dict[str, Path]:
    """The folder of every imported model by name."""
    try:
        return {path.parent.name: path.parent for path in sorted(imported_folder().glob("[!.]*/manifest.json"))}
    except (OSError, UserError):
        return {}


def read_origin(folder: Path) -> Origin:
    """What a model folder says about its origin; all empty if it says nothing that can be used."""
    try:
        found = json.loads(read_regular(folder / ORIGIN, _MAX_ORIGIN))
    except (OSError, ValueError, RecursionError):
        return Origin()
    if not isinstance(found, dict):
        return Origin()
    kinds = {name: type(default) for name, default in Origin._field_defaults.items()}
    return Origin(**{name: found[name] for name, kind in kinds.items() if type(found.get(name)) is kind})


def directions_of(recipe: Recipe) -> str:
    """The languages of a translator in a few words: `de to en`, `200 languages`; empty where none are stated."""
    sources, targets = recipe.languages.source, recipe.languages.target
    if set(sources) != set(targets):
        return f"{_count(sources)} to {_count(targets)}"
    if sources:
        return f"{len(sources)} languages"
    return f"{recipe.source_language} to {recipe.target_language}" if recipe.target_language else ""


def _count(codes: Sequence[str]) -> str:
    return f"{len(codes)} languages" if len(codes) > 1 else "".join(codes) or "any language"


@contextlib.contextmanager
def in_turn(plain: str, note: Callable[[str], None] = lambda text: None) -> Iterator[None]:
    """Holds the lock of an imported model's name; waits for another process that imports or removes it."""
    from regard.atomic_files import is_abandoned  # only here: start-up imports as little as it can

    folder = imported_folder()
    lock, told, pause = folder / ".locks" / plain, False, 0.02
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        while (held := hold(lock)) is None:
            if not told:
                note(f"another process imports or removes {plain}: waiting for it")
            told, pause = True, min(1.5 * pause, 0.5)
            time.sleep(pause)
    except OSError as error:
        raise UserError(
            f"{folder}: cannot be written ({error.strerror or error}); name a folder with -o FOLDER or set REGARD_CACHE"
        ) from None
    with held:
        # Of processes that were killed: files for a reader, and what nobody else may write now.
        leftovers = [*filter(is_abandoned, folder.glob(".files.*.tmp")), *folder.glob(f".{glob.escape(plain)}.*.tmp")]
        for leftover in leftovers:
            shutil.rmtree(leftover, ignore_errors=True)
        yield


def import_on_first_use(source: str) -> Path:
    """The folder of a model of the hub, which is imported if it is not there yet.

    The import has a process of its own: its memory is released, and processes that must not import torch do not.
    """
    folder = imported_folder() / hub_name(source).plain
    if (folder / "manifest.json").is_file():
        return folder
    import subprocess  # only here, likewise

    command = python_command("-c", _CHILD, source)
    ended = subprocess.run(command, env=child_environment(), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    try:
        answer = json.loads(ended.stdout.splitlines()[-1])
        result, is_folder = str(answer["text"]), bool(answer["imported"])
    except (IndexError, KeyError, TypeError, ValueError):
        raise UserError(f"{source}: importing it was interrupted (exit code {ended.returncode}); try again") from None
    if not is_folder:
        raise UserError(escape_control_characters(one_line(result)))
    return Path(result)
