"""What all attentions have in common once they have scores: the mask, the softmax, and the values mixed."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.inspection.record.arithmetic.interception import plain
from regard.inspection.trace.arithmetic import MASKED, Row, Stage, product_sum, written

Spelled = tuple[list[Stage], Tensor, Tensor]
"""The stages, the weights, and what the attention gives."""
TOLD = 128
"""Of vectors up to this long it is told how each number of each token came about."""
GENTLE = "Long vectors have large dot products; divided by the root of their length the softmax stays gentle."


def row(label: str, values: Tensor, symbol: str = "", how: Sequence[str] = (), key: int | None = None) -> Row:
    return Row(label, values.numpy(), symbol, how=list(how), key=key)


def of_tokens(names: Sequence[str], values: Tensor, symbol: str, how: Sequence[Sequence[str]] = ()) -> list[Row]:
    """A row for each token that is looked at: its vector, or its one number."""
    each = values if values.ndim > 1 else values[:, None]
    return [row(name, each[j], symbol, how[j] if how else (), j) for j, name in enumerate(names)]


def single(how: Sequence[str]) -> list[list[str]]:
    """Of rows with one number each."""
    return [[one] for one in how]


def products(asked: Tensor, offered: Tensor, totals: Tensor, more: Sequence[str] = ()) -> list[str]:
    """How each total is the sum of the products of one vector with each row of a matrix."""
    return [
        product_sum(asked.tolist(), of, total, more[i] if more else "")
        for i, (of, total) in enumerate(zip(offered.tolist(), totals.tolist()))
    ]


def scaling(names: Sequence[str], scores: Tensor, scaled: Tensor, size: int) -> Stage:
    how = [f"{written(s)} ÷ √{size} = {written(t)}" for s, t in zip(scores.tolist(), scaled.tolist())]
    return Stage("scaling", f"scoreⱼ / √{size}", GENTLE, of_tokens(names, scaled, "score", single(how)))


def mask(names: Sequence[str], scores: Tensor, seen: Tensor, sentence: str, why: str = MASKED) -> Stage:
    """What may not be seen is shown as such; `sentence` says why it may not."""
    hidden = int((~seen).sum())
    said = sentence if hidden else "Nothing is hidden from this token: it may look at all of them."
    rows = of_tokens(names, torch.where(seen, scores, -torch.inf), "score")
    for one, ok in zip(rows, seen.tolist()):
        one.note = "" if ok else why
    note = f"{hidden} of {len(names)} hidden" if hidden else ""
    return Stage("mask", "scoreⱼ, or -∞ where one may not look", said, rows, note)


def looked(names: Sequence[str], scores: Tensor, seen: Tensor, values: Tensor, value: str, made: str) -> Spelled:
    """From scores to what was seen: softmax and mixing. `value` and `made` are what the formula calls them."""
    weights = softmax(scores, seen)
    total = float(torch.exp(scores[seen].double()).sum())
    how = [
        f"e^{written(s)} ÷ {written(total)} = {written(w)}" if ok else MASKED
        for s, w, ok in zip(scores.tolist(), weights.tolist(), seen.tolist())
    ]
    sharing = Stage(
        "softmax",
        "αⱼ = e^scoreⱼ / Σ e^score",
        "Scores become shares: all positive, and together one. This is how much the token looks at each.",
        of_tokens(names, weights, "α", single(how)),
        f"sum: {float(weights.sum()):.6g}",
    )
    mixed = weights @ values
    shares = weights[:, None] * values
    of_each = [
        [f"{written(w)} × {written(v)} = {written(s)}" for v, s in zip(of, share)]
        for w, of, share in zip(weights.tolist(), values.tolist(), shares.tolist())
        if len(of) <= TOLD
    ]
    first = weights.argsort(descending=True, stable=True)  # the terms that say most
    summed = products(weights[first], values[first].T, mixed)
    mixing = Stage(
        "mixing",
        f"{made} = Σ αⱼ {value}ⱼ",
        "Each token's numbers by its share: the more it was looked at, the more of it is there. Their sum is what was "
        "seen.",
        [*of_tokens(names, shares, f"α {value}", of_each), row(made, mixed, how=summed)],
    )
    return [sharing, mixing], weights, mixed


def softmax(scores: Tensor, seen: Tensor) -> Tensor:
    """e^s over the sum of all; what may not be seen is 0, also where nothing may."""
    if not bool(seen.any()):
        return torch.zeros_like(scores)
    powers = torch.where(seen, torch.exp(scores - scores[seen].max()), 0.0)
    return powers / powers.sum()


def layer_norm(x: Tensor, norm: nn.LayerNorm) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon), times and plus what was learnt."""
    evened = (x - x.mean()) / torch.sqrt(x.var(correction=0) + norm.eps)
    return evened * plain(norm.weight) + (plain(norm.bias) if norm.bias is not None else 0.0)
