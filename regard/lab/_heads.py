"""Individual attention heads: where they attend, how important they are, and the model without some of them.

A gate multiplies the output of a head: 1 leaves the model unchanged, 0 removes the head, and the gradient of the loss
with respect to it measures the importance of the head (Michel et al. 2019).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.data.batching import pad, sorted_batches
from regard.layers.attention.multi_head import MultiHead
from regard.layers.capture import capture
from regard.layers.cross_entropy import token_loss
from regard.task.translate import Translator
from regard.types import BEGIN, END, PAD

REACH = 3
"""Largest distance that is distinguished; everything farther on one side is one class."""
PROFILE = 2 * REACH + 2
"""Classes of positions: -3 or less, -2, -1, 0, 1, 2, 3 or more, and END (or BEGIN)."""

Ids = tuple[list[int], list[int]]
"""A source with END and a target with BEGIN and END, as the model reads them."""


def attentions(model: nn.Module) -> dict[str, MultiHead]:
    """The multi-head attentions by name, in the order of the model."""
    return {name: module for name, module in model.named_modules() if isinstance(module, MultiHead)}


def as_ids(translator: Translator, pairs: Sequence[tuple[str, str]]) -> list[Ids]:
    targets = translator.tokenizer.target.encode_many([target for _, target in pairs])
    return [([*translator.encode(source), END], [BEGIN, *ids, END]) for (source, _), ids in zip(pairs, targets)]


def _batches(pairs: Sequence[Ids], tokens: int, device: torch.device) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    for indexes in sorted_batches([max(pair, key=len) for pair in pairs], tokens):
        ids, mask = pad([pairs[i][0] for i in indexes])
        yield ids.to(device), mask.to(device), pad([pairs[i][1] for i in indexes])[0].to(device)


# ------------------------------------------------------------------------------------------------------------ gates


@contextmanager
def gated(gates: dict[MultiHead, Tensor]) -> Iterator[None]:
    """Context in which the output of each head is multiplied by its gate: (H,), or (B, 1, H) per sentence.

    The tensors may be changed in the meantime, with immediate effect.
    """

    def multiplied(gate: Tensor) -> Callable[[nn.Module, Any], Any]:
        def hook(module: nn.Module, given: Any) -> Any:
            heads = given[0].unflatten(-1, (gate.shape[-1], -1))
            return ((heads * gate[..., None].to(heads.dtype)).flatten(-2),)

        return hook

    hooks = [attention.outward.register_forward_pre_hook(multiplied(gate)) for attention, gate in gates.items()]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def importance(
    model: nn.Module, pairs: Sequence[Ids], device: torch.device, batch_tokens: int = 2048
) -> dict[str, list[float]]:
    """The mean over sentences of |d loss / d gate| for each head of each attention (Michel et al. 2019, equation 2)."""
    found = {name: torch.zeros(attention.heads) for name, attention in attentions(model).items()}
    for ids, mask, target in _batches(pairs, batch_tokens, device):
        gates = {
            name: torch.ones(len(ids), 1, attention.heads, device=device, requires_grad=True)
            for name, attention in attentions(model).items()
        }
        with torch.enable_grad(), gated({attention: gates[name] for name, attention in attentions(model).items()}):
            loss = token_loss(model(ids, mask, target[:, :-1]), target[:, 1:])
        # The gates of a sentence affect only its own loss, so the gradient of the sum has that of each.
        for name, slope in zip(gates, torch.autograd.grad(loss, list(gates.values()))):
            found[name] += slope[:, 0].abs().sum(0).cpu()
    return {name: (total / len(pairs)).tolist() for name, total in found.items()}


# ---------------------------------------------------------------------------------------------------------- looking


@torch.no_grad()
def seen(
    model: nn.Module, pairs: Sequence[Ids], device: torch.device, batch_tokens: int = 2048
) -> dict[str, dict[str, Any]]:
    """Where each head looks when the model reads these pairs: means over all tokens of what `looks` says of each."""
    sums: dict[str, dict[str, Tensor]] = {name: {} for name in attentions(model)}
    counts: dict[str, dict[str, int]] = {name: {} for name in sums}
    for ids, mask, target in _batches(pairs, batch_tokens, device):
        with capture(model) as told:
            model(ids, mask, target[:, :-1])
        sizes = list(zip(mask.sum(1).tolist(), target[:, 1:].ne(PAD).sum(1).tolist()))
        for name in sums:
            (weights,) = (call.float().cpu() for call in told[f"{name}.weights"])
            kind = "across" if "cross_attention" in name else name.partition(".")[0]
            for matrix, (source, written) in zip(weights, sizes):
                places = written if kind == "decoder" else source
                queries = source if kind == "encoder" else written
                for key, values in looks(matrix[:, :queries, :places], kind).items():
                    sums[name][key] = sums[name].get(key, torch.zeros(())) + values.sum(0)
                    counts[name][key] = counts[name].get(key, 0) + len(values)
    means = {name: {key: total / counts[name][key] for key, total in found.items()} for name, found in sums.items()}
    for found in means.values():
        if "profile" in found:
            found["profiles_apart"] = divergence(found["profile"][:, None], found["profile"])
    return {name: {key: mean.tolist() for key, mean in found.items()} for name, found in means.items()}


def looks(weights: Float[Tensor, "H T S"], kind: str) -> dict[str, Float[Tensor, "Q ..."]]:
    """What a sentence's tokens are to each head, one entry a token that has such a thing:

    `entropy` (Q, H), as a share of the most there can be; `apart` (Q, H, H), bits between two heads' weights; and where
    a sentence looks at itself (not `across`) `profile` (Q, H, C) and the weights on the `previous`, `same` and `next`.
    """
    if kind == "encoder":
        weights = weights[:, :-1]  # END is no query
    heads, queries, places = weights.shape
    visible = torch.arange(1, queries + 1) if kind == "decoder" else torch.full((queries,), places)
    rows = weights.transpose(0, 1)
    free = visible > 1  # with a single visible position there is no choice
    found = {
        "entropy": entropy(rows[free]) / visible[free, None].log(),
        "apart": divergence(rows[free][:, :, None], rows[free][:, None]),
    }
    if kind == "across":
        return found
    distance = torch.arange(places) - torch.arange(queries)[:, None]
    classes = distance.clamp(-REACH, REACH) + REACH
    classes[:, -1 if kind == "encoder" else 0] = PROFILE - 1
    found["profile"] = torch.zeros(queries, heads, PROFILE).scatter_add_(
        -1, classes[:, None].expand(-1, heads, -1), rows
    )
    found["previous"] = weights.diagonal(-1, 1, 2).T
    found["same"] = weights.diagonal(0, 1, 2).T
    if kind == "encoder":
        found["next"] = weights.diagonal(1, 1, 2).T[:-1]  # only END follows the last token
    return found


def entropy(weights: Float[Tensor, "*N S"]) -> Float[Tensor, "*N"]:
    """In nats."""
    return -torch.xlogy(weights, weights).sum(-1)


def divergence(one: Float[Tensor, "*N S"], other: Float[Tensor, "*M S"]) -> Float[Tensor, "*K"]:
    """The Jensen-Shannon divergence in bits: 0 for equal weights, 1 for disjoint ones."""
    middle = (one + other) / 2
    return ((entropy(middle) - (entropy(one) + entropy(other)) / 2) / torch.log(torch.tensor(2.0))).clamp(min=0)
