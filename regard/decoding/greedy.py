"""Greedy decoding: the most probable token at every step."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.best import best
from regard.decoding.rules import Rule
from regard.decoding.walk import walk
from regard.states import Hypothesis, StepwiseDecoder
from regard.types import Memory


def greedy(
    decoder: StepwiseDecoder,
    memory: Memory,
    *,
    max_lengths: Int[Tensor, "B"],
    rules: Sequence[Rule] = (),
    prefix: Int[Tensor, "B P"] | None = None,
) -> list[Hypothesis]:
    """One hypothesis per sentence, of at most `max_lengths` tokens (prefix and END included); its score is its
    log-probability. `ids` begin with the forced prefix, but its probability is not counted."""
    return walk(decoder, memory, likeliest, max_lengths=max_lengths, rules=rules, prefix=prefix)


def likeliest(log_probs: Float[Tensor, "B V"], _: Float[Tensor, "B"]) -> Int[Tensor, "B"]:
    return best(log_probs, 1)[1][:, 0]
