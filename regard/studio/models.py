"""The models of the studio, and their descriptions for the page, read from the recipes alone.

A shipped model that cannot be used is left out; one that the user named is an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from regard.config import read_recipe
from regard.errors import UserError
from regard.languages import name
from regard.pretrained import shipped_models
from regard.serving.catalogue import Catalogue, ServedModel, read_models

TITLES = {
    "recurrent": "recurrent",
    "attentional/additive": "Bahdanau (additive attention)",
    "attentional/dot": "Luong (dot attention)",
    "attentional/multiplicative": "Luong (multiplicative attention)",
    "attentional/local": "Luong (local attention)",
    "transformer": "Transformer",
    "universal": "Universal Transformer",
}
"""The common name of a model, by the kind of its decoder and attention."""
MULTI_HEAD = ("transformer", "universal")
"""Kinds whose attention is multi-head unless the recipe says otherwise."""
USES = {
    "generate": "language model",
    "fill": "masked language model",
    "classify": "classifier",
    "caption": "captioner",
    "tag": "tagger",
    "transcribe": "speech recogniser",
}


@dataclass
class StudioModels:
    """The models to load, and those that were left out."""

    catalogue: Catalogue
    left_out: dict[str, str] = field(default_factory=dict)
    """Shipped models that cannot be used, with the reason."""

    def without_folders(self, reasons: dict[str, str]) -> dict[str, str]:
        """Reasons why workers could not load models, without the paths of their folders."""
        return {name: why.replace(str(self.catalogue.models[name].folder), name) for name, why in reasons.items()}


def collect(named: Iterable[str] = (), shipped: bool = True) -> StudioModels:
    """The models that the user named, then the shipped models with other names."""
    found = {one.name: one for name in named for one in read_models(name, languages=False)}
    left_out: dict[str, str] = {}
    for own in shipped_models() if shipped else ():
        if own in found:
            continue
        try:
            found[own] = replace(read_models(own, languages=False)[0], optional=True)
        except UserError as error:
            left_out[own] = str(error).replace(str(shipped_models()[own]), own)
    if not found:
        raise UserError("there is no model to show; name one, such as: regard studio runs/my-run")
    return StudioModels(Catalogue(found.values()), left_out)


def describe(model: ServedModel) -> dict[str, Any]:
    """What the page's menus and views need to know about a model."""
    recipe = read_recipe(model.folder)
    parts = {part: _part(recipe.model.get(part)) for part in ("stem", "encoder", "decoder")}
    decoder, encoder = parts["decoder"], parts["encoder"]
    own = decoder or encoder
    attention = _part(decoder.get("attention")).get("kind", "") if decoder else ""
    if own.get("kind") in MULTI_HEAD and attention == "multi_head":
        attention = ""
    kind = "/".join(word for word in (own.get("kind", ""), attention) if word)
    kinds = {part.get("kind", "") for part in parts.values()}
    return {
        "name": model.name,
        "task": model.task,
        "source": model.source,
        "target": model.target,
        "directions": _directions(model),
        "title": _title(model.task, kind, parts["stem"].get("kind", "")),
        "kind": kind,
        "stem": parts["stem"].get("kind", ""),
        "encoder": encoder.get("kind", ""),
        "decoder": decoder.get("kind", ""),
        "attention": bool(kinds & {"transformer", "universal", "attentional"}),
        "recurrent": bool(kinds & {"recurrent", "attentional"}),
        "positions": any(_part(part.get("position")).get("kind", "none") != "none" for part in parts.values()),
        "ponders": any(part.get("kind") == "universal" and part.get("halting", False) for part in parts.values()),
    }


def _directions(model: ServedModel) -> dict[str, Any] | None:
    """The languages of a model with several directions, and their names. `pairs` is there only if not every source goes
    with every target: there may be 40,000."""
    if not model.multilingual:
        return None
    sources = sorted(model.directions, key=name)
    targets = sorted({target for each in model.directions.values() for target in each}, key=name)
    complete = all({*each, source} >= set(targets) for source, each in model.directions.items())
    return {
        "sources": sources,
        "targets": targets,
        "pairs": None if complete else model.directions,
        "names": {code: name(code) for code in {*sources, *targets}},
    }


def _title(task: str, kind: str, stem: str) -> str:
    base, _, attention = kind.partition("/")
    other = f" ({attention.replace('_', '-')} attention)" if attention else ""
    named = TITLES.get(kind, TITLES.get(base, base) + other)
    if task == "translate":
        return f"{named}, no attention" if kind == "recurrent" else named
    if stem == "patches" and kind == "transformer":
        return "Vision Transformer"
    return f"{named} {USES.get(task, task)}".strip()


def _part(spec: Any) -> dict[str, Any]:
    """A part of a recipe, written as a table or as its kind alone."""
    return {"kind": spec} if isinstance(spec, str) else spec if isinstance(spec, dict) else {}
