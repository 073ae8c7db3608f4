"""Writes a model that fills blanks, classifies texts or tags words as BERT, DistilBERT or RoBERTa: whichever computes
exactly the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from regard.config import Recipe
from regard.data.codec import Pair
from regard.data.input.text import Text
from regard.data.target.label import Label
from regard.data.target.masked import Masked
from regard.data.target.tags import Tags
from regard.errors import UserError
from regard.interchange.families._encoder import ENCLOSING, EncoderFamily
from regard.interchange.write._language_model import Written, order_of, tokenizer_files
from regard.storage import Folder
from regard.types import BEGIN, END, PAD, UNKNOWN

_ROLES = {"pad_token": PAD, "unk_token": UNKNOWN, "cls_token": BEGIN, "sep_token": END}
_FILE = "tokenizer.json"


def written(
    origin: Folder, weights: Mapping[str, Tensor], recipe: Recipe, codec: Pair, family: EncoderFamily
) -> Written:
    """Config, tensors and the tokenizer's files."""
    reader, target = codec.input, codec.target
    if not isinstance(reader, Text):
        raise UserError(f"{family.variant} of transformers reads text, not {reader.kind}")
    order = order_of(origin, reader.tokenizer, {})
    row_of = {id: row for row, id in enumerate(order)}
    shape = family.shape_of(recipe, row_of[PAD])
    tensors: dict[str, Tensor] = {}
    for entry in family.entries(recipe.model, shape):
        tensor = weights[entry.ours]
        tensor = tensor[torch.tensor(order)] if entry.rows else tensor
        parts = entry.split(tensor) if entry.split else tensor.chunk(len(entry.theirs))
        tensors |= dict(zip(entry.theirs, parts, strict=True))
    if recipe.task == "fill" and not recipe.model["tie"]:
        tensors[f"{family.names.output}.bias"] = tensors[family.names.output_bias].clone()
    config = family.config(recipe, shape) | {
        "model_type": family.variant,
        "architectures": [next(name for name, task in family.heads.items() if task == recipe.task)],
        "vocab_size": len(order),
        "pad_token_id": row_of[PAD],
        "bos_token_id": row_of[BEGIN],
        "eos_token_id": row_of[END],
        "tie_word_embeddings": recipe.model.get("tie", True),
    }
    roles = {name: row_of[id] for name, id in _ROLES.items()}
    if isinstance(target, Masked):
        roles["mask_token"] = row_of[target.mask]
    labels = target.labels if isinstance(target, Tags) else target
    if isinstance(labels, Label):
        config |= {
            "id2label": {str(number): name for number, name in enumerate(labels.names)},
            "label2id": {name: number for number, name in enumerate(labels.names)},
        }
    longest = recipe.data.max_length + (ENCLOSING if reader.enclosed else 0)
    files = tokenizer_files(origin, recipe, reader.tokenizer, roles, longest, beginning=False)
    files[_FILE] = _enclosing(files[_FILE], roles, reader.enclosed)
    return Written(config, tensors, files)


def _enclosing(file: bytes, roles: Mapping[str, int], enclosed: bool) -> bytes:
    """A tokenizer.json that puts cls and sep around a text, or nothing."""
    tree = json.loads(file)
    if enclosed and not tree.get("post_processor"):
        names = {one["id"]: one["content"] for one in tree["added_tokens"]}
        cls, sep = ({"id": names[roles[f"{role}_token"]], "type_id": 0} for role in ("cls", "sep"))
        text, other = ({"Sequence": {"id": one, "type_id": kind}} for kind, one in enumerate("AB"))
        used = {one["id"]: row for one, row in ((cls, roles["cls_token"]), (sep, roles["sep_token"]))}
        first: list[Any] = [{"SpecialToken": cls}, text, {"SpecialToken": sep}]
        tree["post_processor"] = {
            "type": "TemplateProcessing",
            "single": first,
            "pair": [*first, other, {"SpecialToken": sep | {"type_id": 1}}],
            "special_tokens": {name: {"id": name, "ids": [row], "tokens": [name]} for name, row in used.items()},
        }
    return json.dumps(tree, ensure_ascii=False).encode()
