"""What all searches share: their first input, and the log-probabilities of the next token."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.rules import Rule
from regard.types import BEGIN


def first_ids(sentences: int, prefix: Int[Tensor, "B P"] | None, device: torch.device) -> Int[Tensor, "B N"]:
    """BEGIN and the forced tokens, fed together in one step."""
    begin = torch.full((sentences, 1), BEGIN, device=device)
    return begin if prefix is None else torch.cat([begin, prefix.to(device)], 1)


def next_log_probs(
    logits: Float[Tensor, "R T V"],
    history: Int[Tensor, "R N"],
    rules: Sequence[Rule],
    written: Int[Tensor, ""] | None = None,
) -> Float[Tensor, "R V"]:
    """Log-probabilities of the next token: -inf where a rule forbids it, else unchanged."""
    log_probs = logits[:, -1].log_softmax(-1, dtype=torch.float32)
    for rule in rules:
        rule(history, log_probs, written)
    return log_probs
