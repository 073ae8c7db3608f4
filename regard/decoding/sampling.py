"""Sampling with temperature, top-k and top-p."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.best import best
from regard.decoding.rules import Rule
from regard.decoding.walk import walk
from regard.errors import UserError
from regard.states import Hypothesis, StepwiseDecoder
from regard.types import Memory


def sample(
    decoder: StepwiseDecoder,
    memory: Memory,
    *,
    max_lengths: Int[Tensor, "B"],
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: int | Sequence[int] = 0,
    rules: Sequence[Rule] = (),
    prefix: Int[Tensor, "B P"] | None = None,
) -> list[Hypothesis]:
    """One hypothesis per sentence; its log-probability is that at temperature 1, without top-k and top-p.

    Each sentence has its own generator, seeded with `seed` or its entry of it, so that its sample does not depend on
    the rest of the batch.
    """
    check_sampling(temperature, top_k, top_p)
    if len(memory) == 0:
        return []
    seeds = [seed] * len(memory) if isinstance(seed, int) else list(seed)
    if len(seeds) != len(memory):
        raise ValueError(f"{len(seeds)} seeds for {len(memory)} sentences")
    draws = max(int(max_lengths.max()), 1 + (0 if prefix is None else prefix.shape[1]))
    numbers = torch.stack([torch.rand(draws, generator=torch.Generator().manual_seed(s)) for s in seeds])

    return walk(
        decoder,
        memory,
        Drawing(temperature, top_k, top_p),
        max_lengths=max_lengths,
        rules=rules,
        prefix=prefix,
        numbers=numbers,
    )


@dataclass(frozen=True)
class Drawing:
    """Draws a token from the distribution after temperature, top-k and top-p."""

    temperature: float
    top_k: int
    top_p: float

    def __call__(self, log_probs: Float[Tensor, "B V"], number: Float[Tensor, "B"]) -> Int[Tensor, "B"]:
        probs, tokens = distribution(log_probs, self.temperature, self.top_k, self.top_p)
        return tokens.gather(1, draw(probs, number)[:, None])[:, 0] if tokens is not None else draw(probs, number)


def check_sampling(temperature: float, top_k: int, top_p: float, repetition_penalty: float = 1.0) -> None:
    if not 0.01 <= temperature <= 100:
        raise UserError(f"temperature {temperature} is out of range; use 0.01 to 100, or top_k 1 for the likeliest")
    if top_k < 0:
        raise UserError(f"top_k {top_k} is negative; use 0 for no limit")
    if not 0 < top_p <= 1:
        raise UserError(f"top_p {top_p} is out of range; use a number above 0 and up to 1")
    if not 0.1 <= repetition_penalty <= 10:
        raise UserError(f"repetition_penalty {repetition_penalty} is out of range; use 0.1 to 10, and 1 for none")


def distribution(
    log_probs: Float[Tensor, "R V"], temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0
) -> tuple[Float[Tensor, "R C"], Int[Tensor, "R C"] | None]:
    """The probabilities to draw from and the ids they belong to; None: all ids, in order.

    `top_p` keeps the smallest set of most probable tokens with that total probability. A row of only -inf becomes
    uniform.
    """
    tokens = None
    if top_k:
        log_probs, tokens = best(log_probs, min(top_k, log_probs.shape[1]))
    elif top_p < 1:
        log_probs, tokens = log_probs.sort(descending=True)
    # The maximum is 0 before the division, so that no temperature overflows.
    centred = log_probs - log_probs.amax(-1, keepdim=True)
    probs = (centred / temperature).nan_to_num_(nan=0.0, neginf=-torch.inf).softmax(-1)
    if top_p < 1:
        before = probs.cumsum(-1) - probs
        probs = probs.masked_fill(before >= top_p, 0.0)
        probs = probs / probs.sum(-1, keepdim=True)
    return probs, tokens


def draw(probs: Float[Tensor, "R C"], number: Float[Tensor, "R"]) -> Int[Tensor, "R"]:
    """The index in each row where the cumulative probability exceeds `number` (0 <= number < 1)."""
    below = probs.cumsum(-1)
    # A parallel cumulative sum is off by rounding errors: a token of probability 0 must not be drawn because of them,
    # and the factor keeps the mark below the total.
    mark = (number * (1 - 2**-20))[:, None] * below[:, -1:]
    return ((below > mark) & (probs > 0)).int().argmax(-1)
