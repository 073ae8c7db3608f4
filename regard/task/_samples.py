"""Several samples of each sentence of a batch, with the rules that every search of a text has."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from regard.decoding.rules import Forbid, NoLoops
from regard.decoding.sampling import sample
from regard.states import Hypothesis, StepwiseDecoder
from regard.types import Memory, map_tree

TOP_P = 0.7
"""Samples are drawn from the fewest tokens with this probability: label smoothing leaves the others too much."""


class Samples(NamedTuple):
    """How many per sentence, and the seed of the first; the others count on from it."""

    count: int
    seed: int


@torch.inference_mode()
def sample_each(
    decoder: StepwiseDecoder,
    memory: Memory,
    limits: Int[Tensor, "B"],
    loops: Int[Tensor, "B"],
    samples: Samples,
    prefix: Int[Tensor, "B P"] | None = None,
) -> list[list[Hypothesis]]:
    """Sample k of every sentence has the same random numbers, so that neighbours in a batch do not matter."""
    sentences, count = len(memory), samples.count

    def repeated(tensor: Tensor) -> Tensor:
        return tensor.repeat_interleave(count, 0)

    found = sample(
        decoder,
        Memory(repeated(memory.states), repeated(memory.mask), map_tree(repeated, memory.final)),
        max_lengths=repeated(limits),
        top_p=TOP_P,
        seed=[samples.seed + number for number in range(count)] * sentences,
        rules=[Forbid(), NoLoops(repeated(loops), 1)],
        prefix=None if prefix is None else repeated(prefix),
    )
    return [found[first : first + count] for first in range(0, len(found), count)]
