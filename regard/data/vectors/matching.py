"""Which vectors of a file belong to which tokens of a tokenizer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regard.data.tokenizer._base import SPACE, Tokenizer
from regard.data.vectors.file import read_vectors
from regard.types import END


@dataclass(frozen=True)
class Matched:
    """Tokens that have a vector: their ids, and a row for each."""

    ids: np.ndarray
    values: np.ndarray
    words: int
    """How many tokens are whole words or marks, and so could have one."""


def word_of(tokenizer: Tokenizer, id: int) -> str:
    """The word that a token is; nothing for specials, and for pieces of words, which no word's vector is meant for."""
    (piece,), (surface,) = tokenizer.pieces([id]), tokenizer.surfaces([id])
    word = surface.strip()
    begins = tokenizer.kind == "word" or piece.startswith(SPACE) or not any(map(str.isalnum, word))
    return word if id > END and begins else ""


def match(path: Path, tokenizer: Tokenizer) -> Matched:
    """A word gets the vector of the same word, else that of the word in small letters: many files have no others."""
    words = {id: word for id in range(len(tokenizer)) if (word := word_of(tokenizer, id))}
    found = read_vectors(path, wanted={form for word in words.values() for form in (word, word.lower())})
    forms = {id: word if word in found else word.lower() for id, word in words.items()}
    ids = [id for id, form in forms.items() if form in found]
    rows = [found.places[forms[id]] for id in ids]
    return Matched(np.array(ids, dtype=np.int64), found.values[rows], len(words))
