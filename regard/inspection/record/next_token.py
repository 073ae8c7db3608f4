"""The next-token distribution in every stage of sampling, computed by the sampler's own code."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from regard.data.tokenizer._base import Tokenizer
from regard.decoding.sampling import check_sampling, distribution
from regard.inspection.trace.next_token import Distribution, NextToken

LISTED = 40
"""Tokens that are listed; of the others, only the total probability is recorded."""


def distribution_of(
    tokenizer: Tokenizer,
    logits: Float[Tensor, "V"],
    log_probs: Float[Tensor, "V"],
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    count: int = LISTED,
) -> Distribution:
    """`log_probs` are those after the decoding rules: -inf for tokens that are never generated."""
    check_sampling(temperature, top_k, top_p)
    stages = {
        "probability": logits.float().softmax(-1),
        "tempered": _dense(log_probs, temperature),
        "within_k": _dense(log_probs, temperature, top_k),
        "drawn": _dense(log_probs, temperature, top_k, top_p),
    }
    # Tokens that are never generated come last, whatever their logits.
    order = log_probs.nan_to_num(nan=-float("inf")).sort(descending=True, stable=True).indices[:count].tolist()
    pieces, texts = tokenizer.pieces(order), [_complete(tokenizer.surfaces([token])[0]) for token in order]
    listed = {name: stage[order].tolist() for name, stage in stages.items()}
    tokens = [
        NextToken(piece, text, logit, *(listed[name][index] for name in stages))
        for index, (piece, text, logit) in enumerate(zip(pieces, texts, logits.float()[order].tolist()))
    ]
    others = len(logits) - len(order)
    rest = {name: max(0.0, float(stage.sum()) - sum(listed[name])) if others else 0.0 for name, stage in stages.items()}
    return Distribution(temperature, top_k, top_p, tokens, others, rest)


def _complete(text: str) -> str:
    """The text that a token appends by itself: nothing for an incomplete UTF-8 sequence."""
    return "" if "\ufffd" in text else text


def _dense(log_probs: Float[Tensor, "V"], temperature: float, top_k: int = 0, top_p: float = 1.0) -> Float[Tensor, "V"]:
    """The sampling probability of every token id."""
    probabilities, tokens = distribution(log_probs[None], temperature, top_k, top_p)
    if tokens is None:
        return probabilities[0]
    return log_probs.new_zeros(log_probs.shape).scatter(0, tokens[0], probabilities[0])
