"""Documents as windows of tokens, for training and scoring language models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.data.examples import Coded
from regard.data.tokenizer._base import Tokenizer
from regard.types import BEGIN, END


def spans(length: int, size: int, first: int = 0, overlap: int = 0) -> list[tuple[int, int, int]]:
    """Splits a document into windows: the start of each, the first position that counts, and the end.

    A document that fits is one window. Otherwise the first window has the length `first`, unless that is 0.
    """
    found, counted = [], 0
    while counted < length:
        start = max(0, counted - overlap)
        stop = min(length, start + (first if first and not counted and length > size else size))
        found.append((start, counted, stop))
        counted = stop
    return found


def coded(document: np.ndarray, start: int = 0, stop: int | None = None, preceded: bool = False) -> Coded:
    """A window of a document as an example without input: BEGIN, then the tokens to predict.

    With `preceded` a window within the document begins with the token before it instead.
    """
    first = document[start - 1] if preceded and start else BEGIN
    target = np.concatenate([[first], document[start:stop]])
    return Coded(np.zeros(0, dtype=np.int64), target, np.arange(len(target)) > 0)


def as_ids(tokenizer: Tokenizer, texts: Sequence[str]) -> list[np.ndarray]:
    """The tokens of each document, followed by END."""
    return [np.array([*ids, END], dtype=np.int64) for ids in tokenizer.encode_many(texts)]
