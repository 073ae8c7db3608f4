"""The models of `regard translate`, one, an ensemble or a chain, and the languages they translate between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from regard.find_model import recipe_of_translator

if TYPE_CHECKING:
    from regard.chaining import Chain
    from regard.task._base_translator import BaseTranslator


def is_chain(models: Sequence[str], via: Sequence[str]) -> bool:
    """Whether texts pass through several models, or through a language in between; else it is one model or an
    ensemble: several for the same directions."""
    if via or len(models) == 1:
        return bool(via)
    from regard.ensembling import is_ensemble

    return not is_ensemble(list(map(recipe_of_translator, models)))


def check_languages(models: Sequence[str], source: str | None, target: str | None, via: Sequence[str]) -> None:
    """Refuses languages that the models do not have, by their recipes alone."""
    from regard.cli.language_choice import check_direction, locale_language

    if not is_chain(models, via):
        return check_direction(recipe_of_translator(models[0]), source, target, locale_language())
    from regard.chaining import route

    route(list(map(recipe_of_translator, models)), source, target, via)


def load_ensemble(models: Sequence[str], how: dict[str, Any]) -> BaseTranslator:
    """`how` are the options of `load_with`; torch computes it."""
    from regard.ensembling import ensemble
    from regard.errors import UserError

    if how["engine"] == "ctranslate2":
        raise UserError("the engine ctranslate2 cannot compute an ensemble; choose the engine torch")
    how["note"]("engine torch: an ensemble needs it")
    return ensemble(*models, device=how["device"], precision=how["precision"])


def load_models(
    models: Sequence[str], source: str | None, target: str | None, via: Sequence[str], how: dict[str, Any]
) -> BaseTranslator | Chain:
    """`how` are the options of `load_with`."""
    from regard.engines import load_with

    def load(model: str) -> BaseTranslator:
        found: BaseTranslator = load_with(model, task="translate", **how)
        return found

    if len(models) == 1 and not via:
        return load(models[0])
    if not is_chain(models, via):
        return load_ensemble(models, how)
    from regard.chaining import Chain, route

    legs = route([recipe_of_translator(model) for model in models], source, target, via)
    loaded = {number: load(models[number]) for number in dict.fromkeys(leg.model for leg in legs)}
    return Chain(legs, [loaded[leg.model] for leg in legs])
