"""Translation through further languages: the output of one translator is the input of the next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any, Unpack, overload

from regard.confidence.words import both
from regard.config import Recipe
from regard.data.input._plain_text import PlainText
from regard.directions import direction, directions
from regard.engines.loading import load
from regard.errors import UserError, suggestion
from regard.find_model import recipe_of_translator
from regard.glossary import Glossary
from regard.glossary_chain import calls_for_terms, follow
from regard.languages import internal, name
from regard.task._base_translator import BaseTranslator
from regard.task._one_or_many import one_or_many
from regard.task._translation import Translation, TranslationOptions

Model = BaseTranslator | str | Path


@dataclass(frozen=True)
class Leg:
    """One translation on the way from a language to another."""

    model: int
    """Its index among the models."""
    source: str
    """Empty: the model detects it."""
    target: str


class Chain:
    """Translators one after the other, with the `translate` of one. `chain` makes it."""

    def __init__(self, legs: Sequence[Leg], translators: Sequence[BaseTranslator]) -> None:
        """`translators` has one for each leg."""
        self.legs = list(legs)
        self.translators = list(translators)

    @property
    def recipe(self) -> Recipe:
        """The recipe of the last translator, whose settings of decoding are the chain's."""
        return self.translators[-1].recipe

    @property
    def engine(self) -> str:
        """What computes it: "torch" if that is so for any of its translators."""
        return "torch" if any(one.engine == "torch" for one in self.translators) else self.translators[-1].engine

    @property
    def device(self) -> Any:
        return getattr(self.translators[-1], "device", "cpu")

    @overload
    def translate(self, texts: str, **options: Unpack[TranslationOptions]) -> Translation: ...  # type: ignore[overload-overlap]
    @overload
    def translate(self, texts: Iterable[str], **options: Unpack[TranslationOptions]) -> list[Translation]: ...
    def translate(self, texts: Any, **options: Unpack[TranslationOptions]) -> Any:
        """Translates a text, or many into a list in the same order.

        Each translator but the last hands on its best translation. Scores, tokens and alternatives are those of the
        last, given that text. An alignment is the product of those of all steps: a word is linked to the words that the
        words in between are linked to. The terms of a glossary are followed in the same way, and the last translator
        puts them into its output; the others do not know them.

        Args:
            texts: A text, or an iterable of texts.
            options: See `TranslationOptions`.

        Returns:
            A `Translation`, or a list of them.
        """
        return one_or_many(texts, PlainText(), lambda accepted: self._translate(accepted, options))

    def _translate(self, texts: list[str], options: TranslationOptions) -> list[Translation]:
        first, last = self.legs[0], self.legs[-1]
        asked = (("from", options.get("source"), first.source), ("to", options.get("target"), last.target))
        for side, given, has in asked:
            if given and has and internal(given) != has:
                raise UserError(f"this chain translates {side} {has} ({name(has)}), not {side} {given}")
        for option in ("prefix", "temperature", "top_k", "top_p", "mbr", "rerank", "memory"):
            if options.get(option) not in (None, ""):
                raise UserError(
                    f"{option} needs one model that translates directly; use it with that model, not a chain"
                )
        steps: list[list[Translation]] = []
        passed = list(texts)
        glossary = options.get("glossary")
        terms = [glossary] * len(texts) if isinstance(glossary, Glossary) else list(glossary or ())
        for leg, translator in zip(self.legs, self.translators, strict=True):
            asked_of: TranslationOptions = {**options, "target": leg.target or None}  # type: ignore[typeddict-item]
            asked_of["source"] = leg.source or options.get("source")
            if leg is not last:
                asked_of |= {"n_best": 1, "progress": None, "glossary": None}
                asked_of["alignment"] = bool(options.get("alignment") or any(map(calls_for_terms, terms, passed)))
            elif terms:
                asked_of["glossary"] = terms
            steps.append(translator.translate(passed, **asked_of))
            if leg is not last:
                terms = [follow(one, step) for one, step in zip(terms, steps[-1])]
            passed = [found.text for found in steps[-1]]
        return [reduce(_composed, ways) for ways in zip(*steps, strict=True)]


def _composed(first: Translation, second: Translation) -> Translation:
    """The second translation, as one of what the first translates."""
    attention = alignment = None
    if first.attention is not None and second.attention is not None:
        between = min(len(first.attention), second.attention.shape[1])  # a last word may have no token of its own
        attention = second.attention[:, :between] @ first.attention[:between]
    if first.alignment is not None and second.alignment is not None:
        alignment = sorted({(s, t) for s, one in first.alignment for other, t in second.alignment if one == other})
    return replace(
        second,
        source=first.source,
        attention=attention,
        alignment=alignment,
        finished=first.finished and second.finished,
        alternatives=[_composed(first, other) for other in second.alternatives],
        confidence=both(first.confidence, second.confidence),
        warnings=[*first.warnings, *second.warnings],
    )


def chain(
    *models: Model, source: str | None = None, target: str | None = None, via: str | Sequence[str] = (), **loading: Any
) -> Chain:
    """Loads translators that together translate from one language to another.

    Args:
        models: Translators, or their names or folders; one with many languages may serve for several steps.
        source: The language of the texts. It may be left out if there is one way only, or if the first model detects
            it.
        target: The language to translate to; it may be left out likewise.
        via: A language to translate through, or several in order; by default the fewest that connect the two.
        loading: Options of `load`, such as device and engine.

    Returns:
        The chain, whose `translate` is that of a translator.
    """
    recipes = [model.recipe if isinstance(model, BaseTranslator) else recipe_of_translator(model) for model in models]
    legs = route(recipes, source, target, [via] if isinstance(via, str) else via)
    loaded: dict[int, BaseTranslator] = {}
    for leg in legs:
        model = models[leg.model]
        if leg.model not in loaded:
            loaded[leg.model] = (
                model if isinstance(model, BaseTranslator) else load(model, **{"task": "translate", **loading})
            )
    return Chain(legs, [loaded[leg.model] for leg in legs])


def route(
    recipes: Sequence[Recipe], source: str | None = None, target: str | None = None, via: Sequence[str] = ()
) -> list[Leg]:
    """The way through the models from a language to another: the one with the fewest translations.

    Refuses languages that none of the models has, and a way that is not clear.
    """
    if not recipes:
        raise UserError("a chain needs a model; name at least one")
    start, to, between = internal(source or ""), internal(target or ""), list(map(internal, via))
    if len(recipes) == 1 and not between:
        return [Leg(0, *direction(recipes[0], start or None, to or None))]
    known: dict[str, dict[str, int]] = {}
    for number, recipe in enumerate(recipes):
        pairs = directions(recipe)
        if not pairs:
            raise UserError(f"model {number + 1} of the chain does not state its languages, so nothing can follow it")
        for one, other in pairs:
            known.setdefault(one, {}).setdefault(other, number)  # of two models for one direction, the first
    ends = {other for targets in known.values() for other in targets}
    for side, code, has in (("from", start, set(known)), ("to", to, ends), *(("to", one, ends) for one in between)):
        if code and code not in has:
            raise UserError(f"none of the models translates {side} '{code}'{suggestion(code, has)}")
    if not to:
        final = _only([one for one in ends if one not in known] or sorted(ends), "target (--to)")
        return route(recipes, source, final, via)
    if not start:
        if len(recipes) > 1:
            first = [one for one in known if one not in ends] or sorted(known)
            return route(recipes, _only(first, "source (--from)"), to, via)
        after = between[0]  # one model with many languages: it detects that of each text
        legs = [Leg(0, "", after)]
    else:
        legs = _shortest(known, start, between[0] if between else to)
    for one, other in zip(between, [*between[1:], to]):
        legs += _shortest(known, one, other)
    return legs


def _shortest(known: Mapping[str, Mapping[str, int]], source: str, target: str) -> list[Leg]:
    """Breadth first."""
    ways: dict[str, list[Leg]] = {source: []}
    last = [source]
    while last and target not in ways:
        reached = []
        for one in last:
            for other, number in known.get(one, {}).items():
                if other not in ways:
                    ways[other] = [*ways[one], Leg(number, one, other)]
                    reached.append(other)
        last = reached
    if source == target or target not in ways:
        raise UserError(
            f"no chain of these models translates from {source} ({name(source)}) to {target} ({name(target)}); "
            "add a model with --model"
        )
    return ways[target]


def _only(codes: Sequence[str], option: str) -> str:
    if len(codes) != 1:
        raise UserError(f"these models know several languages; say which with {option}: {', '.join(sorted(codes))}")
    return codes[0]
