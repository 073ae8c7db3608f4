"""Matches the word vectors of a file with the tokens of a tokenizer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regard.data.tokenizer._base import SPACE, Tokenizer
from regard.data.vectors.file import read_vectors
from regard.special_tokens import END


@dataclass(frozen=True)
class Matched:
    """The ids of tokens with a vector, and their vectors."""

    ids: np.ndarray
    values: np.ndarray
    words: int
    """Number of tokens that are whole words or marks, and so could have a vector."""


def word_of(tokenizer: Tokenizer, id: int) -> str:
    """The word of a token; "" for specials and for pieces of words."""
    (piece,), (surface,) = tokenizer.pieces([id]), tokenizer.surfaces([id])
    word = surface.strip()
    begins = tokenizer.kind == "word" or piece.startswith(SPACE) or not any(map(str.isalnum, word))
    return word if id > END and begins else ""


def match(path: Path, tokenizer: Tokenizer) -> Matched:
    """A word gets its own vector, or that of its lowercase form, as many files have only those."""
    words = {id: word for id in range(len(tokenizer)) if (word := word_of(tokenizer, id))}
    found = read_vectors(path, wanted={form for word in words.values() for form in (word, word.lower())})
    forms = {id: word if word in found else word.lower() for id, word in words.items()}
    ids = [id for id, form in forms.items() if form in found]
    rows = [found.indices[forms[id]] for id in ids]
    return Matched(np.array(ids, dtype=np.int64), found.values[rows], len(words))
