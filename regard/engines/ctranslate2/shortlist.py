"""Shortlist: the tokens that a translator may write, so that the output layer computes no others.

A vocabulary that both languages share has thousands of tokens that only the source language needs, and the output layer
is half of a small decoder's work. The shortlist holds the tokens that occur in text of the target language. It is the
same for every sentence, or, where a token of the source says which language is wanted, for every sentence into that
language (a batch then has one target language). A lexical shortlist, with candidates for each source token, is shorter;
but CTranslate2 joins those of a batch, so a translation would depend on its neighbours.

    shortlist.safetensors    a file of the model folder
        tokens               their ids, in ascending order
        tokens.de            or those of one target language, a list for each
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from regard.data.tokenizer._base import Tokenizer
from regard.directions import tag_of
from regard.errors import UserError
from regard.languages import internal
from regard.recipe import Recipe
from regard.safetensors_header import read_header

FILE = "shortlist.safetensors"
VMAP = "vmap.txt"
"""CTranslate2's file: a line is a source token, a tab and target tokens. Without a source token they count always."""
CHUNK = 10_000
"""Lines tokenised at a time."""
NAME = "tokens"
_TYPES = ("I16", "I32")
_SEPARATORS = " \t\r\n"
Shortlists = Mapping[str, np.ndarray]
"""Tokens by target language; by "" if one list is for all."""


def from_text(tokenizer: Tokenizer, lines: Iterable[str]) -> np.ndarray:
    """The tokens that occur in lines of the target language, and all of one letter or byte: they spell new names."""
    occurs = np.array([len(surface.strip()) < 2 for surface in tokenizer.surfaces(range(len(tokenizer)))])
    one = occurs.sum()
    remaining = iter(lines)
    while some := list(islice(remaining, CHUNK)):
        for ids in tokenizer.encode_many(some):
            occurs[ids] = True
    if occurs.sum() == one:
        raise UserError("the text for the shortlist has no word that the model knows")
    return np.flatnonzero(occurs)


def to_file(lists: Shortlists) -> bytes:
    """The content of `shortlist.safetensors`."""
    from safetensors.numpy import save

    small = all(tokens.max(initial=0) < 1 << 15 for tokens in lists.values())
    named = {f"{NAME}.{code}" if code else NAME: tokens for code, tokens in lists.items()}
    return save({name: tokens.astype(np.int16 if small else np.int32) for name, tokens in named.items()})


def read(path: Path, recipe: Recipe, vocabulary: int) -> dict[str, np.ndarray]:
    """The shortlists of a model with so many tokens. The header is checked before anything is read."""

    def refuse(why: str) -> UserError:
        return UserError(f"{path}: not a usable shortlist: {why}")

    tensors = read_header(path).tensors
    codes = {name: name.removeprefix(NAME).removeprefix(".") for name in tensors}
    if set(tensors) != {NAME} and any(not name.startswith(f"{NAME}.") for name in tensors) or not tensors:
        raise refuse("it must hold one list of integers, tokens, or one for each target language, such as tokens.de")
    for described in tensors.values():
        if described.dtype not in _TYPES or len(described.shape) != 1:
            raise refuse("it must hold lists of integers")
        if described.shape[0] > vocabulary:
            raise refuse(f"it names {described.shape[0]:,} tokens, and the model has {vocabulary:,}")
    if why := why_not_of(recipe, list(codes.values())):
        raise refuse(why)
    from safetensors.numpy import load_file

    lists = {codes[name]: tokens.astype(np.int64) for name, tokens in load_file(path).items()}
    for tokens in lists.values():
        if not len(tokens) or tokens[0] < 0 or tokens[-1] >= vocabulary or (np.diff(tokens) <= 0).any():
            raise refuse("its tokens must be ids of the model, in ascending order")
    return lists


def why_not_of(recipe: Recipe, codes: Sequence[str]) -> str:
    """Why a model cannot have shortlists for these target languages; empty if it can. A code of "" means all."""
    if list(codes) == [""]:
        return ""
    if (recipe.languages.source_tag, recipe.languages.target_tag) != ("none", "source"):
        return "no token of the source alone says which language is wanted, so there can only be one list for all"
    targets = set(map(internal, recipe.languages.target))
    if set(codes) != targets:
        return f"it must have a list for each target language: {', '.join(sorted(targets))}"
    return ""


def vmap(lists: Shortlists, recipe: Recipe, pieces: Sequence[str]) -> bytes:
    """The content of CTranslate2's `vmap.txt`. Token i is spelled `pieces[i]`."""
    lines = []
    for code, tokens in lists.items():
        spelled = [*([tag_of(recipe, code)] if code else []), *(pieces[i] for i in tokens)]
        for piece in spelled:
            if not piece or any(mark in piece for mark in _SEPARATORS):
                raise UserError(f"{FILE}: CTranslate2 cannot read the token {piece[:20]!r} in a shortlist")
        lines.append(f"{spelled[0]}\t{' '.join(spelled[1:])}\n" if code else f"\t{' '.join(spelled)}\n")
    return "".join(lines).encode()
