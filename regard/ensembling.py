"""Ensembles: translators whose probabilities are averaged at each step of one search."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.config import Recipe
from regard.directions import directions
from regard.engines.loading import load
from regard.errors import UserError
from regard.task._base_translator import BaseTranslator

if TYPE_CHECKING:
    from regard.task.translate import Translator

Model = BaseTranslator | str | Path


def ensemble(*models: Model, **loading: Any) -> Translator:
    """Makes one translator of several that have the same vocabulary; they may differ in architecture.

    Args:
        models: Translators, or their names or folders. The recipe of the first one has the settings of decoding.
        loading: Options of `load`, such as device and precision.

    Returns:
        A translator computed by torch, whose probability of each next token is the mean of those of all models.
    """
    if not models:
        raise UserError("an ensemble needs a model; name at least one")
    members = [_in_torch(model, loading) for model in models]
    for number, member in enumerate(members[1:], 2):
        _check_same(members[0], member, str(models[number - 1]) if _is_name(models[number - 1]) else f"model {number}")
    from regard.model._ensemble import Ensemble
    from regard.task.translate import Translator

    first = members[0]
    return Translator(first.recipe, first.tokenizer, Ensemble([one.model for one in members]), first.device)


def is_ensemble(recipes: Sequence[Recipe]) -> bool:
    """Whether several models for the same directions are named. Models for different ones form a chain."""
    return len(recipes) > 1 and all(set(directions(one)) == set(directions(recipes[0])) for one in recipes)


def _is_name(model: Model) -> bool:
    return isinstance(model, (str, Path))


def _in_torch(model: Model, loading: dict[str, Any]) -> Any:
    if isinstance(model, BaseTranslator):
        with_torch = getattr(model, "with_torch", None)  # of another engine
        return with_torch() if with_torch else model
    return load(model, **{"task": "translate", **loading, "engine": "torch"})


def _check_same(first: Any, other: Any, name: str) -> None:
    """Refuses a model whose tokens or languages have other ids than those of the first one."""
    for side, one, another in (
        ("source", first.tokenizer, other.tokenizer),
        ("target", first.tokenizer.target, other.tokenizer.target),
    ):
        if one is not another and one.names(range(len(one))) != another.names(range(len(another))):
            raise UserError(
                f"{name} has another {side} vocabulary than the first model; an ensemble needs the same one"
            )
    stated = [
        (one.recipe.languages, one.recipe.data.source_end, one.recipe.data.plain_source) for one in (first, other)
    ]
    if stated[0] != stated[1]:
        raise UserError(f"{name} reads its source in another way than the first model (languages, data.source_end)")
    if first.device != other.device:
        raise UserError(f"{name} is on {other.device}, the first model on {first.device}; load both on one device")
