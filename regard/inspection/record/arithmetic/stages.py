"""The stages that all attentions share after their scores: mask, softmax, weighted sum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.inspection.record.arithmetic.interception import plain
from regard.inspection.trace.arithmetic import MASKED, Row, Stage, product_sum, short_number

Spelled = tuple[list[Stage], Tensor, Tensor]
"""The stages, the attention weights, and the output."""
EXPLAINED = 128
"""The longest vectors per token for which the computation of each number is recorded."""
WHY_SCALED = (
    "Dot products grow with the length of the vectors; dividing by its square root keeps the softmax from saturating."
)


def row(label: str, values: Tensor, symbol: str = "", how: Sequence[str] = (), key: int | None = None) -> Row:
    return Row(label, values.numpy(), symbol, how=list(how), key=key)


def of_tokens(names: Sequence[str], values: Tensor, symbol: str, how: Sequence[Sequence[str]] = ()) -> list[Row]:
    """A row per key: its vector, or its single number."""
    each = values if values.ndim > 1 else values[:, None]
    return [row(name, each[j], symbol, how[j] if how else (), j) for j, name in enumerate(names)]


def single(how: Sequence[str]) -> list[list[str]]:
    """For rows with one number each."""
    return [[one] for one in how]


def products(vector: Tensor, matrix: Tensor, totals: Tensor, more: Sequence[str] = ()) -> list[str]:
    """How each total is computed: the dot product of a vector with a row of the matrix."""
    return [
        product_sum(vector.tolist(), of, total, more[i] if more else "")
        for i, (of, total) in enumerate(zip(matrix.tolist(), totals.tolist()))
    ]


def scaling(names: Sequence[str], scores: Tensor, scaled: Tensor, size: int) -> Stage:
    how = [f"{short_number(s)} ÷ √{size} = {short_number(t)}" for s, t in zip(scores.tolist(), scaled.tolist())]
    return Stage("scaling", f"scoreⱼ / √{size}", WHY_SCALED, of_tokens(names, scaled, "score", single(how)))


def mask(names: Sequence[str], scores: Tensor, seen: Tensor, sentence: str, why: str = MASKED) -> Stage:
    """Masked scores are marked with `why`; `sentence` explains the mask."""
    hidden = int((~seen).sum())
    said = sentence if hidden else "Nothing is masked for this token: it attends to all of them."
    rows = of_tokens(names, torch.where(seen, scores, -torch.inf), "score")
    for one, ok in zip(rows, seen.tolist()):
        one.note = "" if ok else why
    note = f"{hidden} of {len(names)} masked" if hidden else ""
    return Stage("mask", "scoreⱼ, or -∞ where masked", said, rows, note)


def softmax_and_sum(
    names: Sequence[str], scores: Tensor, seen: Tensor, values: Tensor, value: str, made: str
) -> Spelled:
    """From scores to the output: softmax and weighted sum. `value` and `made` are their symbols in the formula."""
    weights = softmax(scores, seen)
    total = float(torch.exp(scores[seen].double()).sum())
    how = [
        f"e^{short_number(s)} ÷ {short_number(total)} = {short_number(w)}" if ok else MASKED
        for s, w, ok in zip(scores.tolist(), weights.tolist(), seen.tolist())
    ]
    sharing = Stage(
        "softmax",
        "αⱼ = e^scoreⱼ / Σ e^score",
        "The softmax turns scores into attention weights: positive numbers that sum to one.",
        of_tokens(names, weights, "α", single(how)),
        f"sum: {float(weights.sum()):.6g}",
    )
    mixed = weights @ values
    shares = weights[:, None] * values
    of_each = [
        [f"{short_number(w)} × {short_number(v)} = {short_number(s)}" for v, s in zip(of, share)]
        for w, of, share in zip(weights.tolist(), values.tolist(), shares.tolist())
        if len(of) <= EXPLAINED
    ]
    first = weights.argsort(descending=True, stable=True)  # the largest terms
    summed = products(weights[first], values[first].T, mixed)
    mixing = Stage(
        "weighted sum",
        f"{made} = Σ αⱼ {value}ⱼ",
        "Each token's vector is multiplied by its weight; the weighted sum is the output.",
        [*of_tokens(names, shares, f"α {value}", of_each), row(made, mixed, how=summed)],
    )
    return [sharing, mixing], weights, mixed


def softmax(scores: Tensor, seen: Tensor) -> Tensor:
    """e^s over the sum of all; masked scores get 0, even where all are masked."""
    if not bool(seen.any()):
        return torch.zeros_like(scores)
    powers = torch.where(seen, torch.exp(scores - scores[seen].max()), 0.0)
    return powers / powers.sum()


def normalized(x: Tensor, norm: Any, made: str, of: str, sentence: str) -> tuple[Stage, Tensor]:
    """The stage of a layer norm or an rms norm, and its output; `made` and `of` are the symbols of output and input."""
    if isinstance(norm, nn.RMSNorm):
        name, formula = "rms norm", f"{of} / √(mean of squares + ε) · γ"
        found = x / torch.sqrt(x.square().mean() + (norm.eps or 0.0)) * plain(norm.weight)
    else:
        name, formula = "layer norm", f"({of} - mean) / √(variance + ε) · γ + β"
        found = (x - x.mean()) / torch.sqrt(x.var(correction=0) + norm.eps) * plain(norm.weight)
        found = found + (plain(norm.bias) if norm.bias is not None else 0.0)
    return Stage(name, formula if made == "out" else f"{made} = {formula}", sentence, [row(made, found)]), found
