"""From the attention between tokens to links between words.

Row t is the step that predicts target token t, column s is source token s; what a model calls the layers
that hold these weights, and how it was run (teacher-forced, on the hypothesis that was chosen), is the caller's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

Links = list[tuple[int, int]]
"""(source word, target word), both counted from 0."""


def average(layers: Iterable[Float[Tensor, "B H T S"]], heads: Sequence[int] | None = None) -> Float[Tensor, "B T S"]:
    """The mean over layers and heads (some heads only, when named). Rows still sum to one."""
    chosen = [weights if heads is None else weights[:, list(heads)] for weights in layers]
    return torch.stack([weights.float().mean(1) for weights in chosen]).mean(0)


def word_matrix(
    weights: Float[Tensor, "T S"], target_words: Sequence[int], source_words: Sequence[int]
) -> Float[Tensor, "target_words source_words"]:
    """Tokens merged into words: summed over a source word's tokens, averaged over a target word's.

    The two lists hold each token's word (a tokenizer's `word_index`). Rows and columns beyond them, END and padding,
    are dropped and the rest is left as it is: what a row lacks to one is what it gave to END.
    """
    target = torch.tensor(target_words, dtype=torch.long, device=weights.device)
    source = torch.tensor(source_words, dtype=torch.long, device=weights.device)
    weights = weights[: len(target), : len(source)].float()
    by_source = weights.new_zeros(len(target), _count(source)).index_add_(1, source, weights)
    summed = weights.new_zeros(_count(target), by_source.shape[1]).index_add_(0, target, by_source)
    return summed / torch.bincount(target)[:, None].clamp(min=1)


def links(matrix: Float[Tensor, "T S"], threshold: float = 0.3, least: float = 0.05) -> Links:
    """Each target word with the source word it looks at most, and with every other that gets at least `threshold`.

    A target word whose greatest weight is under `least` looked at no word, and stays alone.
    """
    if 0 in matrix.shape:
        return []
    linked = matrix >= threshold
    linked.scatter_(1, matrix.argmax(1, keepdim=True), True)
    return [(source, target) for source, target in (linked & (matrix >= least)).T.nonzero().tolist()]


def pharaoh(pairs: Links) -> str:
    """`0-0 1-2 2-1`: source-target, the form word aligners and Moses exchange."""
    return " ".join(f"{source}-{target}" for source, target in sorted(pairs))


def _count(words: Tensor) -> int:
    return int(words.max()) + 1 if len(words) else 0
