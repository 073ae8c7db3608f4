"""Engines: what computes a model. torch runs every model anywhere; CTranslate2 runs translators on a CPU, faster.

`choose` decides from the recipe and the device, without importing either; loading.py is `regard.load`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.config import Recipe
from regard.engines.ctranslate2.instruction_set import use_avx512_where_it_helps
from regard.engines.ctranslate2.limits import why_not
from regard.errors import UserError
from regard.find_model import find_model, read_recipe_of
from regard.storage import Folder, read_folder

if TYPE_CHECKING:
    from regard.engines.ctranslate2.translator import CTranslate2Translator

ENGINES = ("auto", "torch", "ctranslate2")
OLDEST = (4, 8)
"""The oldest version of CTranslate2 that is used: importing older ones imports torch."""


class Choice(NamedTuple):
    engine: str
    why: str


def choose(recipe: Recipe, engine: str = "auto", device: str = "auto", precision: str = "") -> Choice:
    """The engine for a model, and why. An engine that was asked for and cannot run it is refused."""
    if engine not in ENGINES:
        raise UserError(f"engine '{engine}' is not known; use {', '.join(ENGINES)}")
    if engine == "torch":
        return Choice("torch", "it was asked for")
    obstacle = why_not(recipe) or _device_obstacle(device) or _precision_obstacle(precision) or unfit()
    if not obstacle:
        return Choice("ctranslate2", "it was asked for" if engine == "ctranslate2" else "a translator on a CPU")
    if engine == "ctranslate2":
        raise UserError(f"the engine ctranslate2 cannot be used: {obstacle}; choose the engine torch")
    return Choice("torch", obstacle if recipe.task == "translate" else f"every model made to {recipe.task} needs it")


def unfit() -> str:
    """Why the installed CTranslate2 cannot be used; empty if it can."""
    try:
        version = str(metadata.version("ctranslate2"))
    except metadata.PackageNotFoundError:
        return "the package ctranslate2 is not installed"
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < OLDEST:  # not imported: that would import torch
        wanted = ".".join(map(str, OLDEST))
        return f"ctranslate2 {version} is installed, and {wanted} or newer is needed"
    use_avx512_where_it_helps()
    try:
        import ctranslate2
    except Exception as error:  # a broken installation, a CPU it was not built for
        return f"the package ctranslate2 cannot be imported ({_line(error)})"
    return "" if hasattr(ctranslate2, "Translator") else "the package ctranslate2 is incomplete"


def _device_obstacle(device: str) -> str:
    if device == "cpu" or (device == "auto" and not _may_have_gpu()):
        return ""
    from regard.device import pick_device

    place = pick_device(device)  # refuses a device that is not there
    return "" if place.type == "cpu" else f"torch runs on {place}"


def _may_have_gpu() -> bool:
    """Whether it is worth asking torch, which takes seconds to import."""
    places = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/kfd", "/dev/dxg")
    return sys.platform != "linux" or any(Path(place).exists() for place in places)


def _precision_obstacle(precision: str) -> str:
    return (
        ""
        if precision in ("", "auto", "float32", "int8")
        else f"CTranslate2 computes in float32 or int8, not in {precision}"
    )


def engine_for(name: str | Path, engine: str = "auto", device: str = "auto", precision: str = "") -> str:
    """The engine that `regard.load` would use, without loading anything."""
    recipe = read_recipe_of(read_folder(find_model(name), hash_tensors=False))
    return choose(recipe, engine, device, precision).engine


def load_with(
    name: str | Path,
    device: str = "auto",
    task: str = "",
    precision: str = "",
    engine: str = "auto",
    note: Callable[[str], None] = lambda text: None,
    threads: int = 0,
) -> Any:
    """`regard.load`, which also says which engine it chose, and why. CTranslate2 uses `threads`; 0 is one per core."""
    place = find_model(name)
    folder = read_folder(place, hash_tensors=False)
    recipe = read_recipe_of(folder)
    if task and recipe.task != task:
        raise UserError(f"{name}: this model is made to {recipe.task}, not to {task}; use: regard {recipe.task}")
    choice = choose(recipe, engine, device, precision)
    if choice.engine == "ctranslate2":
        try:
            found = _ctranslate2(name, folder, recipe, precision, threads)
        except Exception as error:  # CTranslate2 refuses the model, or cannot run on this CPU
            if engine != "auto":
                if isinstance(error, UserError):
                    raise
                raise UserError(f"{name}: CTranslate2 cannot load this model ({_line(error)})") from error
            choice = Choice("torch", f"CTranslate2 cannot load this model ({_line(error)})")
        else:
            note(f"engine ctranslate2: {choice.why}")
            return found
    note(f"engine torch: {choice.why}")
    from regard.loading import load as load_in_torch

    return load_in_torch(name, device, task, precision)


def _ctranslate2(
    name: str | Path, folder: Folder, recipe: Recipe, precision: str, threads: int
) -> CTranslate2Translator:
    from regard.engines.ctranslate2.loading import load_translator

    def with_torch() -> Any:
        from regard.loading import load as load_in_torch

        return load_in_torch(name, "cpu", "translate", precision)

    return load_translator(folder, recipe, precision, with_torch, threads)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__
