"""Writes a language model as a Hugging Face folder: GPT-2 or Llama, whichever computes exactly the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.config import Recipe
from regard.data.tokenizer._base import Tokenizer, byte_piece
from regard.data.tokenizer.character import Character
from regard.data.tokenizer.hugging_face import CONTROLS
from regard.errors import UserError
from regard.interchange.families._language_model import LanguageModelFamily
from regard.interchange.write import _tokenizer_files
from regard.storage import Folder
from regard.types import BEGIN, END, UNKNOWN

_OURS, _FAST, _MODEL = "tokenizer.json", "tokenizer.huggingface.json", "tokenizer.model"
_ROLES = {"bos_token": BEGIN, "eos_token": END, "unk_token": UNKNOWN}


class Written(NamedTuple):
    config: dict[str, Any]
    tensors: dict[str, Tensor]
    files: dict[str, bytes]


def written(
    origin: Folder,
    weights: Mapping[str, Tensor],
    recipe: Recipe,
    tokenizer: Tokenizer,
    family: LanguageModelFamily,
    merged: Mapping[int, int],
) -> Written:
    """Config, tensors and the tokenizer's files; `merged` as in huggingface.py."""
    order = order_of(origin, tokenizer, merged)
    row_of = {id: row for row, id in enumerate(order)}
    row_of |= {copy: row_of[real] for copy, real in merged.items()}
    bias = weights.get("decoder.output_bias")
    if bias is not None and bias[[id for id in order if id > END]].any():
        raise UserError(f"{family.variant} of transformers has no output bias, and training gave this model one")
    tensors: dict[str, Tensor] = {}
    for entry in family.entries(recipe.model["decoder"]):
        if not entry.theirs:
            continue
        tensor = weights[entry.ours]
        tensor = tensor[torch.tensor(order)] if entry.rows else tensor
        parts = entry.split(tensor) if entry.split else (tensor,)
        tensors |= dict(zip(entry.theirs, parts, strict=True))
    config = family.config(recipe, len(order), row_of[BEGIN], row_of[END])
    roles = {name: row_of[id] for name, id in _ROLES.items() if id in row_of}
    files = tokenizer_files(origin, recipe, tokenizer, roles, recipe.data.max_length, beginning=True)
    return Written(config, tensors, files)


def order_of(origin: Folder, tokenizer: Tokenizer, merged: Mapping[int, int]) -> list[int]:
    """Our ids in the order of their rows."""
    if tokenizer.kind == "hugging_face":
        return _tokenizer_files.order(origin, tokenizer, "", merged)[0]
    if tokenizer.kind in ("subword", "character"):
        return [*range(len(tokenizer))]
    raise UserError(f"a tokenizer of the kind {tokenizer.kind} has no form that transformers reads")


def tokenizer_files(
    origin: Folder,
    recipe: Recipe,
    tokenizer: Tokenizer,
    roles: Mapping[str, int],
    longest: int,
    beginning: bool,
) -> dict[str, bytes]:
    """The tokenizer's files; `roles` has the row of each special token. With `beginning` a text begins with BEGIN."""
    if tokenizer.kind == "hugging_face":
        whole = json.loads(origin.read(_FAST))
    elif tokenizer.kind == "subword":
        plain = replace(recipe, data=replace(recipe.data, plain_source=False))
        whole = _tokenizer_files.unigram(origin.read(_MODEL), plain) | {
            "post_processor": _beginning() if beginning else None
        }
    else:
        assert isinstance(tokenizer, Character)
        whole = _characters(tokenizer) | {"post_processor": _beginning() if beginning else None}
    table = whole["model"]["vocab"]
    names = {id: one for one, id in table.items()} if isinstance(table, dict) else {}
    names = names or {id: entry[0] for id, entry in enumerate(table)}
    names |= {entry["id"]: entry["content"] for entry in whole.get("added_tokens") or []}
    stated = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_max_length": longest,
        **{role: names[row] for role, row in roles.items() if row in names},
    }
    return {
        "tokenizer.json": json.dumps(whole, ensure_ascii=False).encode(),
        "tokenizer_config.json": (json.dumps(stated, indent=1) + "\n").encode(),
    }


def _beginning() -> dict[str, Any]:
    """A text begins with BEGIN."""
    begin = {"SpecialToken": {"id": "<s>", "type_id": 0}}
    text, other = ({"Sequence": {"id": one, "type_id": 0}} for one in "AB")
    return {
        "type": "TemplateProcessing",
        "single": [begin, text],
        "pair": [begin, text, other],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [BEGIN], "tokens": ["<s>"]}},
    }


def _characters(tokenizer: Character) -> dict[str, Any]:
    """Our character tokenizer: BPE without merges, in which a character without a token is spelled in bytes."""
    special = ["<pad>", "<unk>", "<s>", "</s>"]
    pieces = [*special, *map(byte_piece, range(256)), *tokenizer.characters]
    controls = {"type": "Replace", "pattern": {"Regex": CONTROLS}, "content": ""}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _tokenizer_files.special_tokens(special),
        "normalizer": controls if tokenizer.exact else _tokenizer_files.normalizer(False),
        "pre_tokenizer": None,
        "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": special[UNKNOWN],
            "fuse_unk": False,
            "byte_fallback": True,
            "ignore_merges": False,
            "vocab": {piece: id for id, piece in enumerate(pieces)},
            "merges": [],
        },
    }
