"""Recipe -> model: resolves the `model` section and builds its parts.

The constructors' signatures are the schema: a key that no part takes is refused here, with the nearest one that exists.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from torch import nn

from regard import registry
from regard.config import PRESETS, check_table
from regard.encoder._base import Encoder as EncoderPart
from regard.errors import UserError, suggestion
from regard.model._base import Model as ModelPart
from regard.part_settings import Decoder, Encoder, Model, Stem
from regard.setting import declared

PARTS = {"stem": "tokens", "encoder": "transformer", "decoder": "transformer"}
"""The parts of a model, each a family folder, and their default kinds."""
GIVEN = ("vocabulary", "mask", "channels", "size", "rate", "features", "labels", "inputs", "memory_width")
"""Constructor arguments that come from the data and from the part before; a recipe does not set them."""
VECTORS = "vectors"
"""A key of every part that embeds tokens: a file of word vectors that initialise its table. No constructor takes it:
training copies them into the weights (word_vectors.py), and a saved model names no file."""
EXAMPLE_SIZES = {"vocabulary": 8, "channels": 3, "size": 32, "rate": 8000, "features": 2, "labels": 2}
"""Sizes to check that parts fit together before the data are known."""

Part = TypeVar("Part", bound=nn.Module)


def resolve_model(tree: dict[str, Any]) -> dict[str, Any]:
    """The complete `model` section: presets, defaults and values for all parts are written into each part."""
    stated = dict(tree)
    for name in ("preset", "kind"):
        if not isinstance(stated.get(name, ""), str):
            raise UserError(f"model.{name}: wants a name, was given {registry.shown(stated[name])}")
    preset = stated.pop("preset", "small")
    if preset not in PRESETS:
        raise UserError(f"model.preset: no '{preset}'{suggestion(preset, PRESETS)}")
    kind = stated.pop("kind", "seq2seq")
    own = registry.keywords(registry.factory("model", kind, "model.kind"))
    parts = {part: _spec(stated.pop(part, {}), f"model.{part}") for part in PARTS if part in own}
    resolved: dict[str, Any] = {"kind": kind}
    taken: set[str] = set()
    for part, spec in parts.items():
        part_kind = spec.pop("kind", PARTS[part])
        known = _settings(part, part_kind)
        _refuse_unknown(spec, known, f"model.{part}")
        values = {name: p.default for name, p in known.items()}
        if part == "stem" and "position" in known and _adds_own_positions(parts.get("encoder", {})):
            values["position"] = "none"
        values |= {name: value for name, value in {**PRESETS[preset], **stated}.items() if name in known}
        values |= spec
        _check_values(values, known, f"model.{part}")
        if not values.get(VECTORS):
            values.pop(VECTORS, None)
        resolved[part] = {"kind": part_kind, **values}
        taken |= set(known)
    for name in own.keys() - PARTS.keys() - {*GIVEN, "label_smoothing"}:
        resolved[name] = stated.get(name, own[name].default)
        _check_values({name: resolved[name]}, own, "model")
        taken.add(name)
    for part in PARTS.keys() & stated.keys():
        raise UserError(f"model.{part}: a model of the kind {kind} has no {part}; leave it out")
    _refuse_unknown(stated, {*taken, *PARTS, "preset", "kind"}, "model")
    _check_fit(resolved)
    return resolved


def _spec(given: Any, where: str) -> dict[str, Any]:
    """A part in a recipe: the name of its kind, or a table."""
    spec = {"kind": given} if isinstance(given, str) else given
    if not isinstance(spec, dict) or not isinstance(spec.get("kind", ""), str):
        raise UserError(f"{where}: wants a name or a table with a kind, was given {registry.shown(given)}")
    return dict(spec)


def _settings(part: str, kind: str) -> dict[str, inspect.Parameter]:
    """The keys that a recipe may set for a part."""
    known = registry.keywords(registry.factory(part, kind, f"model.{part}.kind"))
    settings = {name: parameter for name, parameter in known.items() if name not in GIVEN}
    if "vocabulary" in known:
        settings[VECTORS] = inspect.Parameter(VECTORS, inspect.Parameter.KEYWORD_ONLY, default="")
    return settings


def _adds_own_positions(encoder: dict[str, Any]) -> bool:
    kind = encoder.get("kind", PARTS["encoder"])
    maker = registry.factory("encoder", kind, "model.encoder.kind")
    return _subclass(maker, EncoderPart, "model.encoder.kind").adds_own_positions  # type: ignore[type-abstract]


def _subclass(maker: Callable[..., Any], base: type[Part], where: str) -> type[Part]:
    """The class itself; one that does not declare what its family must have is refused."""
    if not (isinstance(maker, type) and issubclass(maker, base)):
        name = getattr(maker, "__name__", "it")
        raise UserError(f"{where}: {name} must be a subclass of {base.__module__}.{base.__name__}")
    return maker


def _check_fit(resolved: dict[str, Any]) -> None:
    """A part without an argument for its input width must be as wide as the part before; copying needs equal parts."""
    encoder, decoder = resolved.get("encoder", {}), resolved.get("decoder", {})
    if decoder.get("bridge") == "copy" and any(encoder.get(k) != decoder.get(k) for k in ("cell", "layers", "width")):
        raise UserError(
            'model.decoder.bridge: "copy" needs a recurrent encoder with the same cell, layers and width; use "dense"'
        )
    width = resolved.get("stem", {}).get("width")
    for before, part, argument in (("stem", "encoder", "inputs"), ("encoder", "decoder", "memory_width")):
        if before in resolved and part in resolved:
            width = resolved[before].get("width", width)
            own = resolved[part].get("width", width)
            if argument not in registry.keywords(registry.factory(part, resolved[part]["kind"])) and width != own:
                raise UserError(
                    f"model.{part}: is {own} wide, but the {before} returns vectors of {width}; make the widths equal"
                )


def _refuse_unknown(given: dict[str, Any], known: Any, where: str) -> None:
    for name in given:
        if name not in known:
            raise UserError(f"{where}: no key '{name}'{suggestion(name, known)}")


def _check_values(values: dict[str, Any], known: dict[str, inspect.Parameter], where: str) -> None:
    """Declared keys must be in range; keys of another package's kind must have the type of their default."""
    keys = {"stem": Stem, "encoder": Encoder, "decoder": Decoder}.get(where.partition(".")[2], Model)
    check_table(keys, values, where)
    registry.check_types({n: v for n, v in values.items() if n not in declared(keys)}, known, where)


def build_model(
    tree: dict[str, Any],
    vocabulary: int | None = None,
    label_smoothing: float = 0.0,
    source_vocabulary: int | None = None,
    **sizes: int,
) -> nn.Module:
    """The model of a `model` section, resolved or short, for data of these sizes (a codec's `sizes()`).

    `source_vocabulary` is the stem's, where it is not that of the decoder.
    """
    resolved = resolve_model(tree)
    kind = resolved.pop("kind")
    maker = registry.factory("model", kind, "model.kind")
    known = registry.keywords(maker)
    given: dict[str, Any] = {**sizes, "memory_width": None} | ({} if vocabulary is None else {"vocabulary": vocabulary})
    given |= _subclass(maker, ModelPart, "model.kind").part_sizes(resolved)  # type: ignore[type-abstract]
    if source_vocabulary is not None and resolved.get("share"):
        raise UserError("model.share: source and target have vocabularies of their own; set share = false")
    made: dict[str, Any] = {}
    for name in [part for part in PARTS if part in resolved]:
        spec = {key: value for key, value in resolved.pop(name).items() if key != VECTORS}
        own = {"vocabulary": source_vocabulary} if name == "stem" and source_vocabulary is not None else {}
        made[name] = registry.build(name, spec, f"model.{name}", **given | own)
        if name in ("stem", "encoder"):
            given["inputs" if name == "stem" else "memory_width"] = made[name].width
    extra = {"label_smoothing": label_smoothing, **sizes}
    made |= {name: value for name, value in extra.items() if name in known}
    return registry.create("model", kind, "model", **made, **resolved)
