"""Builds the trainer of a run: model, initial weights, validation, compiled layers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.assemble import VECTORS, build_model
from regard.config import Recipe, Training, to_toml
from regard.data.codec import Pair
from regard.data.target.label import FILE as LABELS
from regard.data.target.label import Label
from regard.data.target.tags import Tags
from regard.device import mixed_precision
from regard.errors import UserError
from regard.find_model import read_recipe_of
from regard.layers.compile_layers import compile_layers, has_triton
from regard.loading import assign_weights, model_files, take_over, task_of
from regard.model._base import Model
from regard.runs.data_paths import PATHS
from regard.runs.resolution import check_positions
from regard.storage import Folder, read_folder, write_file
from regard.task._base import Prepared
from regard.training.defaults import warnings
from regard.training.listener import Listener, Quiet
from regard.training.ranks import Ranks
from regard.training.trainer import Trainer
from regard.types import Validation
from regard.word_vectors import WORDS_OF, begin_with_vectors, vectors_of

MIN_STEPS_TO_COMPILE = 2000
"""Shorter trainings take less time than compiling does."""
OUT_OF_SOFTMAX = -1e8
"""Below it a bias makes a probability 0."""


def make_trainer(
    recipe: Recipe, prepared: Prepared, place: Path, report: Listener, resume: bool, ranks: Ranks
) -> Trainer:
    """A trainer at step 0, or at the last checkpoint of a resumed run."""
    settings = recipe.training
    torch.manual_seed(recipe.seed)
    model = build_model(recipe.model, **prepared.codec.sizes(), label_smoothing=settings.label_smoothing)
    check_positions(model, recipe)
    if (vectors := vectors_of(recipe.model)) and not (resume and any((place / "checkpoints").glob("step-*"))):
        begin_with_vectors(model, vectors, prepared.codec, report.note if ranks.is_first else Quiet().note)
    fine_tuning = False
    if settings.start_from:  # also when resuming: the run may have been killed before its first checkpoint
        origin = read_folder(Path(settings.start_from))
        old = read_recipe_of(origin)
        fine_tuning = old.task == recipe.task and _has_output_of(origin, prepared.codec)
        if fine_tuning:
            assign_weights(model, origin.weights(), settings.start_from)
            freeze_constant_bias(model)
        else:
            taken = take_over(model, origin.weights(), settings.start_from)
            if ranks.is_first:
                report.note(f"{taken:,} weights taken over from {settings.start_from}")
    saved = without_paths(recipe)
    trainer = Trainer(
        model,
        prepared.stream,
        place,
        settings,
        seed=recipe.seed,
        model_files=lambda weights: model_files(saved, prepared.codec, weights, "float32"),
        validate=(lambda model: judge(recipe, prepared.codec, model, prepared.valid)) if prepared.valid else None,
        better=task_of(recipe).scores_of(recipe),
        report=report,
        ranks=ranks,
        fine_tuning=fine_tuning,
    )
    if compiles(settings, trainer.device, report):
        compile_layers(model)
        if isinstance(model, Model) and model.cuda_graphable:
            trainer.use_cuda_graphs()
    if resume:
        trainer.resume()
    if ranks.is_first:
        for text in warnings(settings, prepared.stream):
            report.note(text)
    # Last, so that a setting that is refused above does not replace those the run was started with.
    ranks.first(lambda: write_file(place / "recipe.toml", to_toml(recipe).encode()))
    return trainer


def freeze_constant_bias(model: nn.Module) -> None:
    """An output bias that does nothing but keep some tokens out of the softmax stays so: imported models have it whose
    own architecture has no such bias, and a trained one could not be exported to it again."""
    bias = getattr(getattr(model, "decoder", None), "output_bias", None)
    if isinstance(bias, nn.Parameter) and not bias[bias > OUT_OF_SOFTMAX].any():
        bias.requires_grad_(False)


def compiles(settings: Training, device: torch.device, report: Listener) -> bool:
    """Whether to compile layers. Notes why it is not possible if it would be worth it; sharded layers never are."""
    if settings.compile not in ("auto", "always", "never"):
        raise UserError(f"training.compile: no '{settings.compile}'; use auto, always or never")
    wanted = device.type == "cuda" and settings.steps >= MIN_STEPS_TO_COMPILE
    if settings.compile == "never" or settings.shard or not (wanted or settings.compile == "always"):
        return False
    if device.type == "cuda" and not has_triton():
        report.note("layers are not compiled: Triton is not here; pip install triton")
        return False
    return True


def judge(recipe: Recipe, codec: Any, model: nn.Module, examples: Any) -> Validation:
    """The scores of a model on validation examples, at the precision it is trained with."""
    device = next(model.parameters()).device
    dtype = mixed_precision(recipe.training.precision, device)
    with torch.autocast(device.type, dtype, enabled=dtype is not None):
        return task_of(recipe)(recipe, codec, model, device).judge(examples)


def _has_output_of(origin: Folder, codec: Any) -> bool:
    """Whether the output layer is for the labels that the model had; other data may have other labels."""
    if not isinstance(codec, Pair) or not isinstance(codec.target, Label | Tags):
        return True
    return codec.target.files() == {LABELS: origin.read(LABELS)}


def without_paths(recipe: Recipe) -> Recipe:
    """The recipe that is saved with a model: it names no files of the machine it was trained on."""
    empty: dict[str, Any] = {name: [] for name in (*PATHS, "pairs")}
    return replace(
        recipe,
        data=replace(recipe.data, root="data", **empty),
        tokenizer={name: value for name, value in recipe.tokenizer.items() if name not in ("path", WORDS_OF)},
        model={name: _plain_part(value) for name, value in recipe.model.items()},
        training=replace(recipe.training, start_from=""),
    )


def _plain_part(value: Any) -> Any:
    """A part of a model without the file of word vectors that its embedding started from."""
    return {key: inner for key, inner in value.items() if key != VECTORS} if isinstance(value, dict) else value
