"""Model folder -> something to use: `load`, and what it checks on the way.

A folder may come from anybody, so no number in it is trusted before it is checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard import registry
from regard.assemble import build_model
from regard.config import Recipe, to_toml
from regard.data.codec import Codec
from regard.device import pick_device
from regard.errors import UserError
from regard.find_model import find_model, read_recipe_of
from regard.layers.fast_linear import ready_for_use
from regard.storage import CALIBRATION, Folder, read_folder, read_small, write_folder
from regard.task._base import Task
from regard.weights import save_weights

MAX_BUFFERS = 1 << 28
"""Bytes of all buffers of a model that is read from a folder."""
CODEC_FILES = ("tokenizer", "input", "labels", "target")
"""First words of the names of the codec's files: what converts between raw examples and tensors."""


def model_files(recipe: Recipe, codec: Codec, weights: dict[str, Tensor], precision: str) -> dict[str, Any]:
    """The files of a model folder, by name."""
    return {
        "recipe.toml": to_toml(recipe).encode(),
        **codec.files(),
        "weights.safetensors": save_weights(weights, precision),
    }


def task_of(recipe: Recipe) -> type[Task]:
    """The class that a recipe's `task` names."""
    return cast(type[Task], registry.factory("task", recipe.task, "task"))


def read_model(folder: Folder) -> tuple[Recipe, Codec, nn.Module]:
    """Recipe, codec and model of a verified folder, from that folder alone.

    The model is built on the meta device, no larger than the header of the weight file allows, and compared with that
    header before any weight is read.
    """
    where = str(folder.path)
    recipe = read_recipe_of(folder)
    codec = read_codec(recipe, folder)
    model = check_fits(recipe, codec, folder.weights_on_meta(), where)
    weights = folder.weights()
    if any(buffer.is_meta for buffer in model.buffers()):  # buffers are computed, not stored
        model = build_model(recipe.model, **codec.sizes())
    assign_weights(model, weights, where)
    return recipe, codec, model


def check_fits(recipe: Recipe, codec: Codec, weights: dict[str, Tensor], where: str) -> nn.Module:
    """Refuses weights that are not exactly those of the recipe's model, which is returned on the meta device."""
    try:
        with torch.device("meta"), Bounded(len(weights)):
            model = build_model(recipe.model, **codec.sizes())
    except (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        why = " ".join(str(error).split())[:120]
        raise UserError(f"{where}: its recipe describes no model that can be built ({why})") from error
    check_weights(model, weights, where)
    _check_buffers(model, where)
    return model


class Uninitialised(TorchFunctionMode):
    """Skips the initialisation of weights that are loaded later: even on the meta device it takes a second."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (Tensor.normal_, Tensor.uniform_) or getattr(func, "__module__", "") == "torch.nn.init":
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


class Bounded(Uninitialised):
    """Aborts the construction of a model that needs many more tensors than its file holds.

    A recipe of one line can name a million layers, which take minutes even on the meta device. `check_weights` compares
    exactly; this only has to stop in time, and leaves room for temporary tensors.
    """

    def __init__(self, tensors: int) -> None:
        super().__init__()
        self._left = 1000 + 20 * tensors

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not torch._C._set_grad_enabled:  # `no_grad` must be able to restore the previous mode
            self._left -= 1
            if self._left == -1:  # once: cleaning up afterwards is not stopped
                raise ValueError("it has more layers than its weight file")
        return super().__torch_function__(func, types, args, kwargs)


def _check_buffers(model: nn.Module, where: str) -> None:
    """Buffers are in no file, so no file bounds their size."""
    size = sum(buffer.numel() * buffer.element_size() for buffer in model.buffers())
    if size > MAX_BUFFERS:
        raise UserError(f"{where}: its recipe needs {size:,} bytes besides the weights; {MAX_BUFFERS:,} are allowed")


def read_codec(recipe: Recipe, folder: Folder) -> Codec:
    known = {name: folder.read(name) for name in folder.names if name.startswith(CODEC_FILES)}
    try:
        return task_of(recipe).codec(recipe, known)
    except (AttributeError, LookupError, OverflowError, RuntimeError, TypeError, ValueError) as error:
        why = " ".join(str(error).split())[:120]
        raise UserError(f"{folder.path}: its tokenizer, labels or input files cannot be read ({why})") from error


def check_weights(model: nn.Module, weights: dict[str, Tensor], where: str) -> None:
    """Refuses a missing, extra or misshapen weight by name."""
    expected = dict(model.named_parameters())
    for name in sorted(expected.keys() ^ weights.keys()):
        problem = "missing" if name in expected else "not part of this model"
        raise UserError(f"{where}: weight {name[:80]!r} is {problem}")
    for name, parameter in expected.items():
        if parameter.shape != weights[name].shape:
            shapes = f"{tuple(weights[name].shape)} instead of {tuple(parameter.shape)}"
            raise UserError(f"{where}: weight '{name}' has shape {shapes}")
        if not weights[name].is_floating_point():
            kind = str(weights[name].dtype).removeprefix("torch.")
            raise UserError(f"{where}: weight '{name}' holds {kind} instead of floating-point numbers")


def assign_weights(model: nn.Module, weights: dict[str, Tensor], where: str) -> None:
    """Loads the weights into the model; they must be exactly those of the model."""
    check_weights(model, weights, where)
    shared = {id(p): name for name, p in model.named_parameters()}
    every = model.named_parameters(remove_duplicate=False)
    model.load_state_dict({name: weights[shared[id(p)]] for name, p in every}, assign=True)


def take_over(model: nn.Module, weights: dict[str, Tensor], where: str) -> int:
    """Copies stem and encoder weights from another model; returns the number of copied values."""
    taken = 0
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.startswith(("stem.", "encoder.")) and name in weights:
                if parameter.shape != weights[name].shape:
                    shapes = f"{tuple(weights[name].shape)} instead of {tuple(parameter.shape)}"
                    raise UserError(f"{where}: weight '{name}' has shape {shapes}; the parts must be of one size")
                parameter.copy_(weights[name])
                taken += parameter.numel()
    if not taken:
        raise UserError(f"{where}: no weight fits this model; it needs the same stem or encoder")
    return taken


def export(
    name: str | Path,
    folder: str | Path,
    precision: str = "int8",
    source_language: str = "",
    target_language: str = "",
    others: Mapping[str, bytes] | None = None,
) -> Path:
    """Writes a model into a new folder in another precision: bfloat16 halves its size, int8 quarters it.

    The languages, where given, replace those of the recipe; `others` are further files of the folder.
    """
    if Path(folder).exists():
        raise UserError(f"{folder} already exists; choose another folder")
    origin = read_folder(find_model(name))
    recipe, codec, _ = read_model(origin)
    if (source_language or target_language) and recipe.task != "translate":
        raise UserError(f"{name}: languages are for models that translate; this one is made to {recipe.task}")
    recipe = replace(
        recipe,
        source_language=source_language or recipe.source_language,
        target_language=target_language or recipe.target_language,
    )
    calibration = origin.path / CALIBRATION
    unlisted = {CALIBRATION: read_small(calibration)} if calibration.exists() else {}
    write_folder(Path(folder), {**model_files(recipe, codec, origin.weights(), precision), **(others or {})}, unlisted)
    return Path(folder)


def load(name: str | Path = "fr-en", device: str = "auto", task: str = "", precision: str = "") -> Any:
    """Loads a model with torch, ready to use; the arguments are those of `regard.load` (engines/__init__.py)."""
    folder = read_folder(find_model(name))
    recipe, codec, model = read_model(folder)
    if task and recipe.task != task:
        raise UserError(f"{name}: this model is made to {recipe.task}, not to {task}; use: regard {recipe.task}")
    place = pick_device(device)
    ready = ready_for_use(model, precision, place) if precision else model
    found = task_of(recipe)(recipe, codec, ready, place)
    found.folder = folder.path
    return found
