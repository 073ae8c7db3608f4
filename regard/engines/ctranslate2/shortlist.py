"""Shortlist: the tokens that a translator may write, so that the output layer computes no others.

A vocabulary that both languages share has thousands of tokens that only the source language needs, and the output layer
is half of a small decoder's work. The shortlist holds the tokens that occur in text of the target language. It is the
same for every sentence. A lexical shortlist, with candidates for each source token, is shorter; but CTranslate2 joins
those of a batch, so a translation would depend on its neighbours.

    shortlist.safetensors    a file of the model folder
        tokens               their ids, in ascending order
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from regard.data.tokenizer._base import Tokenizer
from regard.errors import UserError
from regard.safetensors_header import read_header

FILE = "shortlist.safetensors"
VMAP = "vmap.txt"
"""CTranslate2's file: a line is a source token, a tab and target tokens. Without a source token they count always."""
CHUNK = 10_000
"""Lines tokenised at a time."""
_TYPES = ("I16", "I32")
_SEPARATORS = " \t\r\n"


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


def to_file(tokens: np.ndarray) -> bytes:
    """The content of `shortlist.safetensors`."""
    from safetensors.numpy import save

    return save({"tokens": tokens.astype(np.int16 if tokens.max(initial=0) < 1 << 15 else np.int32)})


def read(path: Path, vocabulary: int) -> np.ndarray:
    """The shortlist of a model with so many tokens. The header is checked before anything is read."""

    def refuse(why: str) -> UserError:
        return UserError(f"{path}: not a usable shortlist: {why}")

    tensors = read_header(path).tensors
    described = tensors.get("tokens")
    if described is None or len(tensors) > 1 or described.dtype not in _TYPES or len(described.shape) != 1:
        raise refuse("it must hold one list of integers, tokens")
    if described.shape[0] > vocabulary:
        raise refuse(f"it names {described.shape[0]:,} tokens, and the model has {vocabulary:,}")
    from safetensors.numpy import load_file

    tokens = load_file(path)["tokens"].astype(np.int64)
    if not len(tokens) or tokens[0] < 0 or tokens[-1] >= vocabulary or (np.diff(tokens) <= 0).any():
        raise refuse("its tokens must be ids of the model, in ascending order")
    return tokens


def vmap(tokens: np.ndarray, pieces: Sequence[str]) -> bytes:
    """The content of CTranslate2's `vmap.txt`. Token i is spelled `pieces[i]`."""
    spelled = [pieces[i] for i in tokens]
    for piece in spelled:
        if not piece or any(mark in piece for mark in _SEPARATORS):
            raise UserError(f"{FILE}: CTranslate2 cannot read the token {piece[:20]!r} in a shortlist")
    return f"\t{' '.join(spelled)}\n".encode()
