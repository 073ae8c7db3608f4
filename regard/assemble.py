"""Recipe -> model, model folder -> something to use. The only file that knows both data and models.

The constructors' signatures are the schema: a key that no part takes is refused here, with the nearest one that exists.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, overload

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard import registry
from regard.config import PRESETS, Recipe, check_table, recipe_from_toml, to_toml
from regard.data.codec import Codec, Pair
from regard.data.tokenizer._base import Tokenizer
from regard.data.vectors.file import width_of
from regard.data.vectors.matching import match
from regard.decoder._base import Decoder as DecoderPart
from regard.device import pick_device
from regard.encoder._base import Encoder as EncoderPart
from regard.errors import UserError, suggestion
from regard.layers.fast_linear import ready_for_use
from regard.model._base import Model as ModelPart
from regard.part_settings import Decoder, Encoder, Model, Stem
from regard.pretrained import shipped_models
from regard.setting import declared
from regard.stem._base import Stem as StemPart
from regard.storage import Folder, read_folder, save_weights, write_folder
from regard.task._base import Task

if TYPE_CHECKING:
    from regard.task.caption import Captioner
    from regard.task.classify import Classifier
    from regard.task.fill import Filler
    from regard.task.forecast import Forecaster
    from regard.task.generate import Generator
    from regard.task.tag import Tagger
    from regard.task.track import Tracker
    from regard.task.transcribe import Transcriber
    from regard.task.translate import Translator

PARTS = {"stem": "tokens", "encoder": "transformer", "decoder": "transformer"}
"""The parts a model may be made of, each a family folder, and the kind taken when a recipe names none."""
GIVEN = ("vocabulary", "channels", "size", "rate", "features", "labels", "inputs", "memory_width")
"""What a part is told of the data and of the part before it; a recipe does not state it."""
VECTORS = "vectors"
"""A key of every part that embeds tokens: a file of vectors that its table begins with. No constructor is told of it:
they are copied into the weights when training begins (`begin_with_vectors`), and a saved model names no file."""
EXAMPLE_SIZES = {"vocabulary": 8, "channels": 3, "size": 32, "rate": 8000, "features": 2, "labels": 2}
"""What parts are told where the data are not known yet, only to see whether they fit together."""


MAX_BUFFERS = 1 << 28
"""Bytes of all buffers of a model that is read from a folder."""
CODEC_FILES = ("tokenizer", "input", "labels", "target")
"""How the names of the files begin that hold what goes between raw examples and the weights."""


def resolve_model(tree: dict[str, Any]) -> dict[str, Any]:
    """The `model` section made complete: presets and values stated once for all parts are written into each part."""
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
    _refuse_unknown(stated, {*taken, *PARTS, "preset", "kind"}, "model")
    _check_fit(resolved)
    return resolved


def _spec(given: Any, where: str) -> dict[str, Any]:
    """What a recipe says of a part: the name of its kind, or a table that may name it."""
    spec = {"kind": given} if isinstance(given, str) else given
    if not isinstance(spec, dict) or not isinstance(spec.get("kind", ""), str):
        raise UserError(f"{where}: wants a name or a table with a kind, was given {registry.shown(given)}")
    return dict(spec)


def _settings(part: str, kind: str) -> dict[str, inspect.Parameter]:
    """What a recipe may say of a part."""
    known = registry.keywords(registry.factory(part, kind, f"model.{part}.kind"))
    settings = {name: parameter for name, parameter in known.items() if name not in GIVEN}
    if "vocabulary" in known:
        settings[VECTORS] = inspect.Parameter(VECTORS, inspect.Parameter.KEYWORD_ONLY, default="")
    return settings


def _adds_own_positions(encoder: dict[str, Any]) -> bool:
    kind = encoder.get("kind", PARTS["encoder"])
    return cast(type[EncoderPart], registry.factory("encoder", kind, "model.encoder.kind")).adds_own_positions


def _check_fit(resolved: dict[str, Any]) -> None:
    """A part that cannot be told how wide its input is must be as wide as the part before it; copies need equals."""
    encoder, decoder = resolved.get("encoder", {}), resolved.get("decoder", {})
    if decoder.get("bridge") == "copy" and any(encoder.get(k) != decoder.get(k) for k in ("cell", "layers", "width")):
        raise UserError(
            'model.decoder.bridge: "copy" needs a recurrent encoder with the same cell, layers and width; use "dense"'
        )
    given = resolved.get("stem", {}).get("width")
    for before, part, told in (("stem", "encoder", "inputs"), ("encoder", "decoder", "memory_width")):
        if before in resolved and part in resolved:
            given = resolved[before].get("width", given)
            own = resolved[part].get("width", given)
            if told not in registry.keywords(registry.factory(part, resolved[part]["kind"])) and given != own:
                raise UserError(
                    f"model.{part}: is {own} wide, but the {before} gives vectors of {given}; make the widths equal"
                )


def _refuse_unknown(given: dict[str, Any], known: Any, where: str) -> None:
    for name in given:
        if name not in known:
            raise UserError(f"{where}: no key '{name}'{suggestion(name, known)}")


def _check_values(values: dict[str, Any], known: dict[str, inspect.Parameter], where: str) -> None:
    """Declared keys must be in range; a key of another package's kind must have the type of its default."""
    keys = {"stem": Stem, "encoder": Encoder, "decoder": Decoder}.get(where.partition(".")[2], Model)
    check_table(keys, values, where)
    registry.check_types({n: v for n, v in values.items() if n not in declared(keys)}, known, where)


def build_model(
    tree: dict[str, Any], vocabulary: int | None = None, label_smoothing: float = 0.0, **sizes: int
) -> nn.Module:
    """The model a (resolved or short) `model` section describes, for data of these sizes (a codec's `sizes()`)."""
    resolved = resolve_model(tree)
    kind = resolved.pop("kind")
    maker = registry.factory("model", kind, "model.kind")
    known = registry.keywords(maker)
    given: dict[str, Any] = {**sizes, "memory_width": None} | ({} if vocabulary is None else {"vocabulary": vocabulary})
    given |= cast(type[ModelPart], maker).part_sizes(resolved)
    made: dict[str, Any] = {}
    for name in [part for part in PARTS if part in resolved]:
        spec = {key: value for key, value in resolved.pop(name).items() if key != VECTORS}
        made[name] = registry.build(name, spec, f"model.{name}", **given)
        if name in ("stem", "encoder"):
            given["inputs" if name == "stem" else "memory_width"] = made[name].width
    told = {"label_smoothing": label_smoothing, **sizes}
    made |= {name: value for name, value in told.items() if name in known}
    return registry.create("model", kind, "model", **made, **resolved)


def vectors_of(model: dict[str, Any]) -> dict[str, str]:
    """The parts of a resolved `model` section whose embeddings begin with vectors, and the files of these."""
    return {part: model[part][VECTORS] for part in PARTS if model.get(part, {}).get(VECTORS)}


def check_vectors(model: nn.Module, files: dict[str, str]) -> None:
    """Refuses a file that is not there or has vectors of another width, by its beginning alone."""
    for part, file in files.items():
        width, own = width_of(Path(file)), _table(model, part).shape[1]
        if width != own:
            raise UserError(
                f"model.{part}.{VECTORS}: {file} has vectors of {width} numbers, but the embedding is {own} wide; "
                f"set its width to {width} or learn vectors of {own}"
            )


def begin_with_vectors(model: nn.Module, files: dict[str, str], codec: Codec, note: Callable[[str], None]) -> None:
    """Copies vectors into the embeddings of the parts that they are for; tokens without one stay as they were drawn.

    All are made longer or shorter by one factor, so that together they are as large as what they replace: which word is
    near which does not change, and the layers above get numbers of the size that they expect.
    """
    check_vectors(model, files)
    for part, file in files.items():
        table, found = _table(model, part), match(Path(file), _tokenizer(codec, part))
        if not len(found.ids):
            raise UserError(f"model.{part}.{VECTORS}: none of the {found.words:,} words of the vocabulary is in {file}")
        with torch.no_grad():
            values = torch.from_numpy(found.values).to(table)
            spread = values.square().mean().sqrt()
            table[torch.from_numpy(found.ids)] = values * (table.square().mean().sqrt() / spread.clamp(min=1e-12))
        share = len(found.ids) / found.words
        note(f"model.{part}: {len(found.ids):,} of {found.words:,} words ({share:.0%}) have a vector in {file}")


def _tokenizer(codec: Codec, part: str) -> Tokenizer:
    """What gives the tokens that a part embeds: one for both sides, or that of what is read or of what is written."""
    if isinstance(codec, Pair):
        return (codec.input if part == "stem" else codec.target).tokenizer  # type: ignore[union-attr]
    return cast(Tokenizer, codec)


def _table(model: nn.Module, part: str) -> Tensor:
    found: StemPart | DecoderPart = model.get_submodule(part)  # type: ignore[assignment]
    embedding = found.token_embedding
    if embedding is None:
        raise UserError(f"model.{part}.{VECTORS}: there is no table of tokens in this part")
    return embedding.table.weight


def model_files(recipe: Recipe, codec: Codec, weights: dict[str, Tensor], precision: str) -> dict[str, Any]:
    """What a model folder holds, by file name."""
    return {
        "recipe.toml": to_toml(recipe).encode(),
        **codec.files(),
        "weights.safetensors": save_weights(weights, precision),
    }


def find_model(name: str | Path) -> Path:
    """The folder of a shipped model's name, a model folder, or a run (its final model, else its newest checkpoint)."""
    path = Path(name)
    if (path / "manifest.json").is_file():
        return path
    if (path / "model" / "manifest.json").is_file():
        return path / "model"
    steps = sorted((path / "checkpoints").glob("step-*")) if path.is_dir() else []
    if steps:
        return steps[-1]
    if str(name) in shipped_models():
        return shipped_models()[str(name)]
    if path.is_dir():
        raise UserError(f"{path}: no model in this folder (no manifest.json); give a model folder or a run")
    raise UserError(f"no model '{name}'{suggestion(str(name), shipped_models())} (or the path of a model folder)")


def task_of(recipe: Recipe) -> type[Task]:
    """The class that a recipe's `task` names."""
    return cast(type[Task], registry.factory("task", recipe.task, "task"))


def read_model(folder: Folder) -> tuple[Recipe, Codec, nn.Module]:
    """Recipe, codec and model of a verified folder, from that folder alone.

    The folder may come from anybody, so no number in it is believed: the model is built without memory for its weights,
    no larger than the header of the weight file says, and compared with that header before any weight is read.
    """
    where = str(folder.path)
    recipe = read_recipe_of(folder)
    codec = read_codec(recipe, folder)
    stored = folder.weights_on_meta()
    try:
        with torch.device("meta"), Bounded(len(stored)):
            model = build_model(recipe.model, **codec.sizes())
    except (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        why = " ".join(str(error).split())[:120]
        raise UserError(f"{where}: its recipe describes no model that can be built ({why})") from error
    check_weights(model, stored, where)
    _check_buffers(model, where)
    weights = folder.weights()
    if any(buffer.is_meta for buffer in model.buffers()):  # what a part computes for itself must be there too
        model = build_model(recipe.model, **codec.sizes())
    assign_weights(model, weights, where)
    return recipe, codec, model


def read_recipe_of(folder: Folder) -> Recipe:
    """The recipe that a model was trained with."""
    where = f"{folder.path}/recipe.toml"
    try:
        text = folder.read("recipe.toml").decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{where}: not UTF-8 text: {error}") from None
    return recipe_from_toml(text, where)


class Uninitialised(TorchFunctionMode):
    """Weights that are given values later get none now. On the meta device even that would take a second."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (Tensor.normal_, Tensor.uniform_) or getattr(func, "__module__", "") == "torch.nn.init":
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


class Bounded(Uninitialised):
    """Aborts the construction of a model that needs many more tensors than there are.

    A recipe of one line can ask for a million layers, which take minutes even on the meta device. The exact comparison
    is `check_weights`; this one only has to come to an end, and leaves room for tensors that are made on the way.
    """

    def __init__(self, tensors: int) -> None:
        super().__init__()
        self._left = 1000 + 20 * tensors

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not torch._C._set_grad_enabled:  # `no_grad` must be able to restore what it found
            self._left -= 1
            if self._left == -1:  # once: what cleans up on the way out is not stopped
                raise ValueError("it has more layers than its weight file")
        return super().__torch_function__(func, types, args, kwargs)


def _check_buffers(model: nn.Module, where: str) -> None:
    """What parts compute for themselves is in no file, so no file bounds it."""
    size = sum(buffer.numel() * buffer.element_size() for buffer in model.buffers())
    if size > MAX_BUFFERS:
        raise UserError(f"{where}: its recipe needs {size:,} bytes besides the weights; {MAX_BUFFERS:,} are allowed")


def read_codec(recipe: Recipe, folder: Folder) -> Codec:
    known = {name: folder.read(name) for name in folder.names if name.startswith(CODEC_FILES)}
    try:
        return task_of(recipe).codec(recipe, known)
    except (AttributeError, LookupError, OverflowError, RuntimeError, TypeError, ValueError) as error:
        why = " ".join(str(error).split())[:120]
        raise UserError(f"{folder.path}: what goes with the weights cannot be understood ({why})") from error


def check_weights(model: nn.Module, weights: dict[str, Tensor], where: str) -> None:
    """Refuses a missing, extra or misshapen weight by name."""
    wanted = dict(model.named_parameters())
    for name in sorted(wanted.keys() ^ weights.keys()):
        raise UserError(f"{where}: weight {name[:80]!r} is {'missing' if name in wanted else 'not part of this model'}")
    for name, parameter in wanted.items():
        if parameter.shape != weights[name].shape:
            shapes = f"{tuple(weights[name].shape)} instead of {tuple(parameter.shape)}"
            raise UserError(f"{where}: weight '{name}' has shape {shapes}")
        if not weights[name].is_floating_point():
            kind = str(weights[name].dtype).removeprefix("torch.")
            raise UserError(f"{where}: weight '{name}' holds {kind} instead of floating-point numbers")


def assign_weights(model: nn.Module, weights: dict[str, Tensor], where: str) -> None:
    """Gives the model its weights, which must be all of them and no others."""
    check_weights(model, weights, where)
    shared = {id(p): name for name, p in model.named_parameters()}
    every = model.named_parameters(remove_duplicate=False)
    model.load_state_dict({name: weights[shared[id(p)]] for name, p in every}, assign=True)


def take_over(model: nn.Module, weights: dict[str, Tensor], where: str) -> int:
    """Gives the stem and the encoder the weights of another model's; says how many numbers that were."""
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
        raise UserError(f"{where}: nothing in it fits this model; it needs the same stem or encoder")
    return taken


def export(
    name: str | Path,
    folder: str | Path,
    precision: str = "int8",
    source_language: str = "",
    target_language: str = "",
) -> Path:
    """Writes a model into a new folder, smaller: bfloat16 halves it, int8 quarters it.

    The languages, where given, are those that the new folder states.
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
    write_folder(Path(folder), model_files(recipe, codec, origin.weights(), precision))
    return Path(folder)


Translators = Literal["fr-en", "fr-en-bahdanau", "fr-en-luong", "fr-en-plain", "fr-en-universal"]
Generators = Literal["shakespeare", "shakespeare-lstm"]
"""Shipped models whose task a type checker knows by their name."""


@overload
def load(
    name: Translators = "fr-en", device: str = "auto", task: Literal[""] = "", precision: str = ""
) -> Translator: ...
@overload
def load(name: Generators, device: str = "auto", task: Literal[""] = "", precision: str = "") -> Generator: ...
@overload
def load(name: Literal["fashion"], device: str = "auto", task: Literal[""] = "", precision: str = "") -> Classifier: ...
@overload
def load(name: Literal["shapes"], device: str = "auto", task: Literal[""] = "", precision: str = "") -> Captioner: ...
@overload
def load(name: str | Path, device: str = "auto", *, task: Literal["translate"], precision: str = "") -> Translator: ...
@overload
def load(name: str | Path, device: str = "auto", *, task: Literal["classify"], precision: str = "") -> Classifier: ...
@overload
def load(name: str | Path, device: str = "auto", *, task: Literal["tag"], precision: str = "") -> Tagger: ...
@overload
def load(name: str | Path, device: str = "auto", *, task: Literal["generate"], precision: str = "") -> Generator: ...
@overload
def load(name: str | Path, device: str = "auto", *, task: Literal["forecast"], precision: str = "") -> Forecaster: ...
@overload
def load(name: str | Path, device: str = "auto", *, task: Literal["caption"], precision: str = "") -> Captioner: ...
@overload
def load(
    name: str | Path, device: str = "auto", *, task: Literal["transcribe"], precision: str = ""
) -> Transcriber: ...
@overload
def load(name: str | Path, device: str = "auto", *, task: Literal["track"], precision: str = "") -> Tracker: ...
@overload
def load(name: str | Path, device: str = "auto", *, task: Literal["fill"], precision: str = "") -> Filler: ...
@overload
def load(name: str | Path, device: str = "auto", task: str = "", precision: str = "") -> Any: ...
def load(name: str | Path = "fr-en", device: str = "auto", task: str = "", precision: str = "") -> Any:
    """A shipped model by name, or any model folder or run by path, ready to use: a Translator, a Classifier, ...

    With `task` a model for anything else is refused, and type checkers know what is returned. `precision` makes it fast
    for use and nothing else: float32, bfloat16, int8 (on the CPU) or auto, the fastest of these on the device. Without
    it the model is as it was trained.
    """
    recipe, codec, model = read_model(read_folder(find_model(name)))
    if task and recipe.task != task:
        raise UserError(f"{name}: this model is made to {recipe.task}, not to {task}; use: regard {recipe.task}")
    place = pick_device(device)
    ready = ready_for_use(model, precision, place) if precision else model
    return task_of(recipe)(recipe, codec, ready, place)
