"""Sampling: tokens drawn from what the model believes, sharpened or flattened, from its likeliest part or the whole."""

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
from regard.types import Hypothesis, Memory, Steps


def sample(
    decoder: Steps,
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
    """One hypothesis a sentence, its log-probability as at temperature 1 and without the cut-offs.

    A sentence draws from a generator of its own, started with `seed` or with its entry of it, so that its sample does
    not depend on its neighbours; the same sentence twice with the same seed comes out the same twice.
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
    """A choice by chance, of what sampling leaves to choose from."""

    temperature: float
    top_k: int
    top_p: float

    def __call__(self, log_probs: Float[Tensor, "B V"], number: Float[Tensor, "B"]) -> Int[Tensor, "B"]:
        probs, tokens = distribution(log_probs, self.temperature, self.top_k, self.top_p)
        return tokens.gather(1, draw(probs, number)[:, None])[:, 0] if tokens is not None else draw(probs, number)


def check_sampling(temperature: float, top_k: int, top_p: float) -> None:
    if not 0.01 <= temperature <= 100:
        raise UserError(f"temperature {temperature} is out of range; use 0.01 to 100, or top_k 1 for the likeliest")
    if top_k < 0:
        raise UserError(f"top_k {top_k} is negative; use 0 for no limit")
    if not 0 < top_p <= 1:
        raise UserError(f"top_p {top_p} is out of range; use a number above 0 and up to 1")


def distribution(
    log_probs: Float[Tensor, "R V"], temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0
) -> tuple[Float[Tensor, "R C"], Int[Tensor, "R C"] | None]:
    """The probabilities that are drawn from, and whose they are: None means every id's, in order.

    `top_p` keeps the fewest likeliest tokens that hold that much of the probability. A row of -inf becomes uniform.
    """
    tokens = None
    if top_k:
        log_probs, tokens = best(log_probs, min(top_k, log_probs.shape[1]))
    elif top_p < 1:
        log_probs, tokens = log_probs.sort(descending=True)
    # The likeliest is 0 before the division, so that no temperature overflows.
    centred = log_probs - log_probs.amax(-1, keepdim=True)
    probs = (centred / temperature).nan_to_num_(nan=0.0, neginf=-torch.inf).softmax(-1)
    if top_p < 1:
        before = probs.cumsum(-1) - probs
        probs = probs.masked_fill(before >= top_p, 0.0)
        probs = probs / probs.sum(-1, keepdim=True)
    return probs, tokens


def draw(probs: Float[Tensor, "R C"], number: Float[Tensor, "R"]) -> Int[Tensor, "R"]:
    """The place in each row where the running sum of its probabilities passes `number` (0 <= number < 1)."""
    below = probs.cumsum(-1)
    # A running sum done in parallel rises and falls by a rounding error: what has no probability must not gain from
    # it, and a hair less than the whole keeps a number from passing the last token that has any.
    mark = (number * (1 - 2**-20))[:, None] * below[:, -1:]
    return ((below > mark) & (probs > 0)).int().argmax(-1)
