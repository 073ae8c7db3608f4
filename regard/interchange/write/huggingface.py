"""Writes a Transformer that translates as a Hugging Face folder, in the family that computes exactly the same; language
models are in _language_model.py, encoders with a head in _encoder.py, classifiers of pictures in
_picture_classifier.py.

An imported model becomes its own family again. Ours becomes Marian (post-norm) or Pegasus (pre-norm): both have the
paper's sinusoids with all sines before all cosines, ours alternate. So the columns of the residual stream, whose order
matters to nothing else, are put into that order in every weight that reads or writes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from regard import registry
from regard.assemble import resolve_model
from regard.config import Recipe
from regard.data.codec import Pair
from regard.data.tokenizer._base import Tokenizer
from regard.errors import UserError
from regard.find_model import find_model
from regard.imported_models import read_origin
from regard.interchange.families._base import Family
from regard.interchange.families._encoder import EncoderFamily
from regard.interchange.families._entry import Entry
from regard.interchange.families._language_model import LanguageModelFamily
from regard.interchange.families._vocabulary import NEVER
from regard.interchange.families.vit import ViT
from regard.interchange.write import _encoder as _encoders
from regard.interchange.write import _language_model as _language_models
from regard.interchange.write import _picture_classifier, _tokenizer_files
from regard.interchange.write._language_model import Written
from regard.interchange.write._whole_folder import whole_folder
from regard.layers.embedding import TokenEmbedding
from regard.loading import read_model
from regard.storage import Folder, read_folder
from regard.types import BEGIN, END, PAD, UNKNOWN

__all__ = ["export"]

FAMILIES = "interchange/families"
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_LANGUAGE_MODELS = ("gpt2", "llama")
_PICTURE_CLASSIFIERS = ("vit", "deit")
_ENCODERS = ("bert", "roberta", "distilbert")
_ORDER = ("marian", "pegasus", "m2m_100", "bart", "mbart", "t5")
_CARDS = {
    "generate": ("text-generation", "A language model"),
    "fill": ("fill-mask", "A masked language model"),
    "classify": ("text-classification", "A classifier"),
    "tag": ("token-classification", "A tagger"),
}
_SOURCE, _TARGET, _BIAS = "stem.embedding.table.weight", "decoder.embedding.table.weight", "decoder.output_bias"


def export(name: str | Path, folder: str | Path, precision: str = "float32") -> Path:
    """Writes a model, and what reads its input, into a new folder that transformers loads."""
    if precision not in DTYPES:
        raise UserError(f"precision {precision} is not for huggingface; use {', '.join(DTYPES)}")
    origin = read_folder(find_model(name))
    recipe, codec, _ = read_model(origin)  # checks the weights
    recipe = replace(recipe, model=resolve_model(recipe.model))  # older recipes leave defaults out
    if recipe.task == "classify" and isinstance(codec, Pair) and codec.input.kind == "image":
        pair = codec
        return _export_task(name, recipe, Path(folder), precision, lambda: _picture_model(origin, recipe, pair))
    if recipe.task in ("fill", "classify", "tag"):
        order = sorted(_ENCODERS, key=lambda family: family != read_origin(origin.path).family)
        return _export_task(name, recipe, Path(folder), precision, lambda: _encoder(origin, recipe, codec, order))
    if recipe.task not in ("translate", "generate") or not isinstance(codec, Tokenizer):
        raise UserError(
            f"{name}: only models that translate, continue texts, fill blanks, classify or tag are written for "
            f"huggingface, not one to {recipe.task}"
        )
    if recipe.task == "generate":
        tokenizer = codec
        return _export_task(name, recipe, Path(folder), precision, lambda: _language_model(origin, recipe, tokenizer))
    try:
        family: Family = _family(recipe)
        weights = origin.weights()
        plan = _plan(origin, weights, recipe, codec, family)
        tensors = dict(_tensors(weights, recipe, family, plan))
    except UserError as error:
        raise UserError(f"{name}: {error}") from None
    with whole_folder(Path(folder)) as place:
        config = family.config(recipe, _special(plan), (len(plan.source), len(plan.target)))
        tensors |= _positions(family, config)
        _write_tensors(place / "model.safetensors", tensors, DTYPES[precision])
        _write_json(place / "config.json", config | {"dtype": precision})
        _write_json(place / "generation_config.json", _generation(recipe, plan))
        for file, content in _tokenizer_files.files(origin, recipe, codec, family.variant, plan).items():
            (place / file).write_bytes(content)
        (place / "README.md").write_text(_card(recipe), encoding="utf-8")
    return Path(folder)


def _language_model(origin: Folder, recipe: Recipe, tokenizer: Tokenizer) -> Written:
    weights = origin.weights()
    family = cast(LanguageModelFamily, _family(recipe, _LANGUAGE_MODELS))
    return _language_models.written(origin, weights, recipe, tokenizer, family, _merged(weights, recipe))


def _encoder(origin: Folder, recipe: Recipe, codec: Any, order: Sequence[str]) -> Written:
    if recipe.model["stem"]["kind"] != "tokens":
        raise UserError(
            f"only models that read text are written for huggingface, not one with {recipe.model['stem']['kind']}"
        )
    return _encoders.written(origin, origin.weights(), recipe, codec, cast(EncoderFamily, _family(recipe, order)))


def _picture_model(origin: Folder, recipe: Recipe, pair: Pair) -> Written:
    family = cast(ViT, _family(recipe, _PICTURE_CLASSIFIERS))
    return _picture_classifier.written(origin.weights(), recipe, pair, family)


def _export_task(name: str | Path, recipe: Recipe, folder: Path, precision: str, write: Callable[[], Written]) -> Path:
    """A folder of a model that is no translator."""
    try:
        config, tensors, files = write()
    except UserError as error:
        raise UserError(f"{name}: {error}") from None
    with whole_folder(folder) as place:
        _write_tensors(place / "model.safetensors", tensors, DTYPES[precision])
        _write_json(place / "config.json", {**config, "dtype": precision})
        for file, content in files.items():
            (place / file).write_bytes(content)
        pictures = "preprocessor_config.json" in files
        (place / "README.md").write_text(_card(recipe, pictures), encoding="utf-8")
    return folder


@dataclass
class Plan:
    """Their numbering: which of our ids each row is."""

    source: list[int]
    target: list[int]
    """The same list if the languages share a vocabulary."""
    start: int
    """Their ids."""
    end: int
    pad: int
    never: list[int]
    """Rows that are never written."""


def _family(recipe: Recipe, order: Sequence[str] = _ORDER) -> Any:
    """The first family that can hold the model."""
    by_type: dict[str, Any] = {}
    for kind in registry.kinds(FAMILIES):
        maker: Any = registry.factory(FAMILIES, kind)
        by_type |= dict.fromkeys(maker.model_types, maker)
    reasons = []
    for variant in order:
        family = by_type[variant](variant)
        if not (why := family.why_not(recipe)):
            return family
        reasons.append(f"{variant}: {why}")
    raise UserError(f"no family of transformers computes this model ({'; '.join(reasons)})")


def _plan(origin: Folder, weights: Mapping[str, Tensor], recipe: Recipe, tokenizer: Tokenizer, family: Family) -> Plan:
    """The order of rows, and which of our special tokens are one of theirs."""
    merged = _merged(weights, recipe)
    source, target = _tokenizer_files.order(origin, tokenizer, family.variant, merged)
    by_id = {id: row for row, id in enumerate(target)}
    for copy, real in merged.items():
        by_id[copy] = by_id[real]
    start, end, pad = by_id[BEGIN], by_id[END], by_id.get(PAD, by_id[BEGIN])
    never = sorted({by_id[id] for id in (PAD, UNKNOWN, BEGIN) if id in by_id} - {end})
    return Plan(source, target, start, end, pad, never)


def _merged(weights: Mapping[str, Tensor], recipe: Recipe) -> dict[int, int]:
    """Special tokens of ours that are a copy of another one: those that take no part in the softmax, and have the same
    rows as another one (training may have changed one of them)."""
    if _BIAS not in weights:
        return {}
    tables = [weights[_TARGET if _TARGET in weights else _SOURCE]]
    if not recipe.model["decoder"]["tie"]:
        tables.append(weights["decoder.output.weight"])
    found: dict[int, int] = {}
    for copy in (PAD, UNKNOWN, BEGIN):
        if weights[_BIAS][copy] > NEVER / 2:
            continue
        for real in (END, BEGIN, UNKNOWN, PAD):
            same = real != copy and weights[_BIAS][real] > NEVER / 2
            if same and all(torch.equal(table[copy], table[real]) for table in tables):
                found[copy] = real
                break
        else:
            # Nothing reads the padding's row, and where the copy is the start, it becomes a token of its own.
            if copy == PAD:
                found[copy] = BEGIN
    return found


def _tensors(weights: dict[str, Tensor], recipe: Recipe, family: Family, plan: Plan) -> Iterator[tuple[str, Tensor]]:
    model, names = recipe.model, family.tables
    weights = _in_halves(weights, recipe)
    entries = [entry for entry in family.entries(model) if entry.ours != _BIAS]
    share, tie = model.get("share", True), model["decoder"]["tie"]
    tables = [Entry(_SOURCE, (names.shared if share else names.source,), rows="source")]
    if not share:
        tables.append(Entry(_TARGET, (names.target,), rows="target"))
    if not tie or family.variant == "t5":
        output = "decoder.output.weight" if not tie else _SOURCE if share else _TARGET
        tables.append(Entry(output, (names.output,), rows="target"))
    orders = {"source": torch.tensor(plan.source), "target": torch.tensor(plan.target)}
    made: dict[str, Tensor] = {}
    for entry in [*entries, *tables]:
        tensor = weights[entry.ours]
        if entry.rows:
            tensor = tensor[orders[entry.rows]]
        if entry.skip:
            tensor = torch.cat([tensor.new_zeros(entry.skip, *tensor.shape[1:]), tensor])
        parts = tensor.chunk(len(entry.theirs)) if len(entry.theirs) > 1 else (tensor,)
        factors = entry.factors or (1.0,) * len(parts)
        for name, part, factor in zip(entry.theirs, parts, factors, strict=True):
            made[name] = part / factor if factor != 1 else part
    bias = weights.get(_BIAS)
    wanted = next((entry.theirs[0] for entry in family.entries(model) if entry.ours == _BIAS), "")
    if bias is None:
        bias = torch.zeros(1 + max(plan.target))
    theirs = bias[orders["target"]]
    if wanted:
        made[wanted] = theirs[None].clamp(min=-1e9)
    else:
        ordinary = [row for row in range(len(theirs)) if row not in plan.never]
        if theirs[ordinary].any():
            raise UserError(f"{family.variant} of transformers has no output bias, and training gave this model one")
    yield from made.items()


def _positions(family: Family, config: Mapping[str, Any]) -> dict[str, Tensor]:
    """The positions that Pegasus's files hold, although they are computed."""
    if family.variant != "pegasus":
        return {}
    position = TokenEmbedding(1, config["d_model"], "sinusoidal_halves").position
    table = position(torch.arange(config["max_position_embeddings"]))
    return {f"model.{side}.embed_positions.weight": table.clone() for side in ("encoder", "decoder")}


def _in_halves(weights: dict[str, Tensor], recipe: Recipe) -> dict[str, Tensor]:
    """The weights of a model whose positions have all sines before all cosines.

    The residual stream's columns are permuted: in all that reads it (the columns of W_Q, W_K, W_V, of the first layer
    of the feed-forward, of the output layer) and all that writes it (embeddings, and the rows of the others).
    """
    position = recipe.model["stem"]["position"]
    kind = position.get("kind") if isinstance(position, dict) else position
    width = recipe.model["stem"]["width"]
    if kind != "sinusoidal":
        return weights
    if width % 2:
        raise UserError(f"a width of {width} has no two halves of sines and cosines; only even widths can be written")
    columns = torch.cat([torch.arange(0, width, 2), torch.arange(1, width, 2)])
    permuted = {}
    for name, tensor in weights.items():
        if name == _BIAS or name.endswith(("feed_forward.inward.bias", "attention.inward.bias")):
            permuted[name] = tensor  # of inner columns, or of tokens
        elif name.endswith((".outward.weight",)):
            permuted[name] = tensor[columns]
        else:
            permuted[name] = tensor[..., columns]
    return permuted


def _special(plan: Plan) -> dict[str, int]:
    return {
        "pad_token_id": plan.pad,
        "eos_token_id": plan.end,
        "bos_token_id": plan.start,
        "decoder_start_token_id": plan.start,
        "forced_eos_token_id": plan.end,
    }


def _generation(recipe: Recipe, plan: Plan) -> dict[str, Any]:
    settings = recipe.decoding
    return {
        **_special(plan),
        "bad_words_ids": [[row] for row in plan.never],
        "num_beams": settings.beam,
        "length_penalty": settings.length_penalty,
        "max_length": settings.max_length + 1,  # theirs counts the start
    }


def _write_tensors(path: Path, tensors: Mapping[str, Tensor], dtype: torch.dtype) -> None:
    from safetensors.torch import save_file

    save_file(
        {name: tensor.to(dtype).contiguous() for name, tensor in tensors.items()}, path, metadata={"format": "pt"}
    )


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n")


def _card(recipe: Recipe, pictures: bool = False) -> str:
    spoken = sorted({*recipe.languages.source, *recipe.languages.target}) or [
        code for code in (recipe.source_language, recipe.target_language) if code
    ]
    listed = "".join(f"- {code}\n" for code in spoken)
    use, title = "translation", "A translator"
    if recipe.task in _CARDS:
        use, title = ("image-classification", "A classifier of pictures") if pictures else _CARDS[recipe.task]
    header = f"---\nlibrary_name: transformers\npipeline_tag: {use}\n{'language:' if listed else ''}\n{listed}---\n"
    return f"{header}# {recipe.name or title}\n\nWritten by `regard export --format huggingface`.\n"
