"""GloVe (Pennington, Socher and Manning 2014): vectors whose dot products approximate log co-occurrence counts.

    J = sum over i, j with X_ij > 0 of f(X_ij) (w_i . c_j + b_i + d_j - log X_ij)^2,    f(x) = min(1, (x / x_max)^0.75)

Minimised by AdaGrad over entries in random order. The paper updates after every entry; here the gradients of a batch of
entries are summed for one update. To make up for fewer updates per word, the rate is higher than the paper's.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from regard.data.vectors.counts import CoOccurrence
from regard.data.vectors.near import Vectors
from regard.errors import UserError

WIDEST = 4096


def weight(x: Tensor, x_max: float, power: float = 0.75) -> Tensor:
    """f(x): down-weights rare pairs, constant from x_max on (equation 9)."""
    return (x / x_max).pow(power).clamp(max=1)


class GloVe:
    """Word and context vectors, each row with its bias last, and AdaGrad's sums of squares."""

    def __init__(self, size: int, width: int, rate: float, x_max: float, seed: int, device: torch.device):
        random = torch.Generator().manual_seed(seed)
        shape = (size, width + 1)
        self.words, self.contexts = (((torch.rand(shape, generator=random) - 0.5) / width).to(device) for _ in range(2))
        self.word_squares, self.context_squares = (torch.ones(shape, device=device) for _ in range(2))
        self.rate, self.x_max = rate, x_max

    def step(self, rows: Int[Tensor, " N"], columns: Int[Tensor, " N"], counts: Float[Tensor, " N"]) -> Tensor:
        """One update for a batch of entries. Returns their part of J before it, halved as in the authors' code."""
        w, c = self.words.index_select(0, rows), self.contexts.index_select(0, columns)
        predicted = torch.einsum("nd,nd->n", w[:, :-1], c[:, :-1]) + w[:, -1] + c[:, -1]
        off = predicted - counts.log()
        pull = weight(counts, self.x_max) * off  # dJ / d predicted
        of_words = _gradient(pull, rows, columns, self.contexts)
        of_contexts = _gradient(pull, columns, rows, self.words)
        self._descend(self.words, self.word_squares, *of_words)
        self._descend(self.contexts, self.context_squares, *of_contexts)
        return 0.5 * (pull * off).sum()

    def _descend(self, table: Tensor, squares: Tensor, rows: Tensor, gradient: Tensor) -> None:
        """AdaGrad (Duchi et al. 2011); the sums of squares start at 1."""
        squares.index_add_(0, rows, gradient.square())
        table.index_add_(0, rows, gradient / squares.index_select(0, rows).sqrt(), alpha=-self.rate)

    def vectors(self) -> Float[Tensor, "V D"]:
        """w + c: the two differ only by their initial values, and the sum is slightly better (4.2)."""
        return (self.words + self.contexts)[:, :-1]


def _gradient(pull: Tensor, own: Tensor, other: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:
    """The rows that these entries update, and for each the sum of pull * [the other's vector, 1]."""
    order = own.argsort()
    rows, lengths = own[order].unique_consecutive(return_counts=True)
    begins = lengths.cumsum(0) - lengths
    pulls = pull[order]
    gradient = F.embedding_bag(other[order], table, begins, mode="sum", per_sample_weights=pulls)
    gradient[:, -1] = F.embedding_bag(
        torch.zeros_like(order), torch.ones(1, 1).to(pull), begins, mode="sum", per_sample_weights=pulls
    )[:, 0]
    return rows, gradient


def learn(
    counts: CoOccurrence,
    width: int = 100,
    epochs: int = 25,
    rate: float = 0.1,
    x_max: float = 10.0,
    batch: int = 0,
    seed: int = 1,
    device: torch.device | None = None,
    progress: Callable[[int, int, str], None] | None = None,
    losses: list[float] | None = None,
) -> Vectors:
    """Trains vectors on counts, reproducibly by `seed`. The mean of J of each epoch is appended to `losses`.

    `x_max` is 100 in the paper, for billions of words; smaller corpora have smaller counts. A `batch` of 0 is chosen so
    that an epoch has a few hundred updates.
    """
    if not 1 <= width <= WIDEST:
        raise UserError(f"vectors are 1 to {WIDEST:,} wide, not {width:,}")
    if not len(counts):
        raise UserError("no two words of the vocabulary stand near each other; give more text or a wider window")
    place = device or torch.device("cpu")
    rows, columns = (torch.from_numpy(side.astype(np.int64)).to(place) for side in (counts.rows, counts.columns))
    values = torch.from_numpy(counts.values.astype(np.float32)).to(place)
    made = GloVe(len(counts.words), width, rate, x_max, seed, place)
    batch = batch or min(max(len(counts) // 256, 64), 16384)
    random = torch.Generator().manual_seed(seed)
    for epoch in range(epochs):
        total = torch.zeros((), device=place, dtype=torch.float64)
        order = torch.randperm(len(counts), generator=random).to(place)
        for begin in range(0, len(counts), batch):
            chosen = order[begin : begin + batch]
            total += made.step(rows[chosen], columns[chosen], values[chosen])
            if progress:
                progress(epoch * len(counts) + begin + len(chosen), epochs * len(counts), "learning vectors")
        mean = float(total) / len(counts)
        if not np.isfinite(mean):
            raise UserError(f"the vectors grew without bound in epoch {epoch + 1}; use a smaller rate than {rate:g}")
        if losses is not None:
            losses.append(mean)
    return Vectors(counts.words, made.vectors().cpu().numpy())
