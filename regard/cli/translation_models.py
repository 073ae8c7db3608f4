"""The models of `regard translate`: one, or a chain of several, and the languages they translate between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from regard.find_model import recipe_of_translator

if TYPE_CHECKING:
    from regard.chaining import Chain
    from regard.task._base_translator import BaseTranslator


def check_languages(models: Sequence[str], source: str | None, target: str | None, via: Sequence[str]) -> None:
    """Refuses languages that the models do not have, by their recipes alone."""
    from regard.cli.language_choice import check_direction, locale_language

    if len(models) == 1 and not via:
        return check_direction(recipe_of_translator(models[0]), source, target, locale_language())
    from regard.chaining import route

    route(list(map(recipe_of_translator, models)), source, target, via)


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
    from regard.chaining import Chain, route

    legs = route([recipe_of_translator(model) for model in models], source, target, via)
    loaded = {number: load(models[number]) for number in dict.fromkeys(leg.model for leg in legs)}
    return Chain(legs, [loaded[leg.model] for leg in legs])
