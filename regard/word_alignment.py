"""Word alignment from cross-attention: average the heads, merge tokens into words, extract links.

Row t is the step that predicts target token t, column s is source token s. The caller runs the model (with teacher
forcing, on the chosen hypothesis) and collects the weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

if TYPE_CHECKING:
    from torch import Tensor

Links = list[tuple[int, int]]
"""(source word, target word), both counted from 0."""


def average(layers: Iterable[Tensor], heads: Sequence[int] | None = None) -> Tensor:
    """The mean over layers and heads (or over the given heads) of (B, H, T, S): (B, T, S). Rows still sum to one."""
    import torch

    chosen = [weights if heads is None else weights[:, list(heads)] for weights in layers]
    return torch.stack([weights.float().mean(1) for weights in chosen]).mean(0)


def word_matrix(
    weights: Float[np.ndarray, "T S"], target_words: Sequence[int], source_words: Sequence[int]
) -> Float[np.ndarray, "target_words source_words"]:
    """Merges tokens into words: the sum over a source word's tokens, the mean over a target word's.

    The two lists hold the word of each token (a tokenizer's `word_index`), negative for one that belongs to none. Rows
    and columns beyond them (END, padding) and those without a word are dropped without renormalizing: what a row lacks
    to one is the weight of END and of tags.
    """
    target, source = np.array(target_words, dtype=np.int64), np.array(source_words, dtype=np.int64)
    weights = np.asarray(weights)[: len(target), : len(source)][target >= 0][:, source >= 0]
    target, source = target[target >= 0], source[source >= 0]
    by_source = np.zeros((len(target), _count(source)), np.float32)
    np.add.at(by_source.T, source, np.asarray(weights, np.float32)[: len(target), : len(source)].T)
    summed = np.zeros((_count(target), by_source.shape[1]), np.float32)
    np.add.at(summed, target, by_source)
    return summed / np.bincount(target, minlength=len(summed))[:, None].clip(min=1).astype(np.float32)


def links(matrix: Float[np.ndarray, "T S"], threshold: float = 0.3, least: float = 0.05) -> Links:
    """Links each target word to the source word with the largest weight, and to every other of at least `threshold`.

    A target word whose largest weight is below `least` stays unaligned.
    """
    if 0 in matrix.shape:
        return []
    linked = matrix >= threshold
    linked[np.arange(len(matrix)), matrix.argmax(1)] = True
    return [(source, target) for source, target in np.argwhere((linked & (matrix >= least)).T).tolist()]


def pharaoh(pairs: Links) -> str:
    """`0-0 1-2 2-1`: source-target pairs, the format of Moses and word aligners."""
    return " ".join(f"{source}-{target}" for source, target in sorted(pairs))


def _count(words: np.ndarray) -> int:
    return int(words.max()) + 1 if len(words) else 0
