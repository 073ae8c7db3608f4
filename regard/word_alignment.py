"""Word alignment from cross-attention: average the heads, merge tokens into words, extract links.

Row t is the step that predicts target token t, column s is source token s. The caller runs the model (with teacher
forcing, on the chosen hypothesis) and collects the weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

Links = list[tuple[int, int]]
"""(source word, target word), both counted from 0."""


def average(layers: Iterable[Float[Tensor, "B H T S"]], heads: Sequence[int] | None = None) -> Float[Tensor, "B T S"]:
    """The mean over layers and heads (or over the given heads). Rows still sum to one."""
    chosen = [weights if heads is None else weights[:, list(heads)] for weights in layers]
    return torch.stack([weights.float().mean(1) for weights in chosen]).mean(0)


def word_matrix(
    weights: Float[Tensor, "T S"], target_words: Sequence[int], source_words: Sequence[int]
) -> Float[Tensor, "target_words source_words"]:
    """Merges tokens into words: the sum over a source word's tokens, the mean over a target word's.

    The two lists hold the word of each token (a tokenizer's `word_index`). Rows and columns beyond them (END, padding)
    are dropped without renormalizing: what a row lacks to one is the weight of END.
    """
    target = torch.tensor(target_words, dtype=torch.long, device=weights.device)
    source = torch.tensor(source_words, dtype=torch.long, device=weights.device)
    weights = weights[: len(target), : len(source)].float()
    by_source = weights.new_zeros(len(target), _count(source)).index_add_(1, source, weights)
    summed = weights.new_zeros(_count(target), by_source.shape[1]).index_add_(0, target, by_source)
    return summed / torch.bincount(target)[:, None].clamp(min=1)


def links(matrix: Float[Tensor, "T S"], threshold: float = 0.3, least: float = 0.05) -> Links:
    """Links each target word to the source word with the largest weight, and to every other of at least `threshold`.

    A target word whose largest weight is below `least` stays unaligned.
    """
    if 0 in matrix.shape:
        return []
    linked = matrix >= threshold
    linked.scatter_(1, matrix.argmax(1, keepdim=True), True)
    return [(source, target) for source, target in (linked & (matrix >= least)).T.nonzero().tolist()]


def pharaoh(pairs: Links) -> str:
    """`0-0 1-2 2-1`: source-target pairs, the format of Moses and word aligners."""
    return " ".join(f"{source}-{target}" for source, target in sorted(pairs))


def _count(words: Tensor) -> int:
    return int(words.max()) + 1 if len(words) else 0
