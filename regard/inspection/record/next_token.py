"""What may come next, from the logits to what is drawn from: every stage by the sampler's own code."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from regard.data.tokenizer._base import Tokenizer
from regard.decoding.sampling import check_sampling, distribution
from regard.inspection.draw.next_token import Distribution, Next

SHOWN = 40
"""Tokens that are told one by one; of the others, how much they have together."""


def distribution_of(
    tokenizer: Tokenizer,
    logits: Float[Tensor, "V"],
    log_probs: Float[Tensor, "V"],
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    count: int = SHOWN,
) -> Distribution:
    """`log_probs` are those of the logits after the rules have struck out what is never written (-inf)."""
    check_sampling(temperature, top_k, top_p)
    stages = {
        "probability": logits.float().softmax(-1),
        "tempered": _whole(log_probs, temperature),
        "within_k": _whole(log_probs, temperature, top_k),
        "drawn": _whole(log_probs, temperature, top_k, top_p),
    }
    # What is never written stands last, whatever the model thinks of it.
    order = log_probs.nan_to_num(nan=-float("inf")).sort(descending=True, stable=True).indices[:count].tolist()
    pieces, texts = tokenizer.pieces(order), [_alone(tokenizer.surfaces([token])[0]) for token in order]
    told = {name: stage[order].tolist() for name, stage in stages.items()}
    tokens = [
        Next(piece, text, logit, *(told[name][place] for name in stages))
        for place, (piece, text, logit) in enumerate(zip(pieces, texts, logits.float()[order].tolist()))
    ]
    others = len(logits) - len(order)
    rest = {name: max(0.0, float(stage.sum()) - sum(told[name])) if others else 0.0 for name, stage in stages.items()}
    return Distribution(temperature, top_k, top_p, tokens, others, rest)


def _alone(text: str) -> str:
    """What a token adds by itself: a byte of a character whose others are not there yet adds nothing."""
    return "" if "\ufffd" in text else text


def _whole(log_probs: Float[Tensor, "V"], temperature: float, top_k: int = 0, top_p: float = 1.0) -> Float[Tensor, "V"]:
    """What is drawn from, as a number for every id."""
    probabilities, tokens = distribution(log_probs[None], temperature, top_k, top_p)
    if tokens is None:
        return probabilities[0]
    return log_probs.new_zeros(log_probs.shape).scatter(0, tokens[0], probabilities[0])
