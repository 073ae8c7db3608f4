"""A decoder without a network: what comes next is looked up by a hash of the sentence and of every token so far.

`log_probs` gives the same answer from a plain list of tokens, so searches can be checked against sums done by hand.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.types import BEGIN, END, Memory, State

BUCKETS = 9973


class Table:
    """Breaks at once when a search mistreats its state: reads past the written cache, mixes beams, overruns capacity."""

    def __init__(
        self, vocabulary: int = 7, seed: int = 0, impossible: float = 0.0, end: float = 0.0, spread: float = 1.5
    ) -> None:
        random = torch.Generator().manual_seed(seed)
        self.vocabulary = vocabulary
        self.table = torch.randn(BUCKETS, vocabulary, generator=random) * spread
        self.table[:, END] += end
        self.table[torch.rand(self.table.shape, generator=random) < impossible] = -torch.inf
        self.beams_seen: list[int] = []

    def memory(self, keys: list[int]) -> Memory:
        return Memory(
            torch.tensor(keys, dtype=torch.float32)[:, None, None], torch.ones(len(keys), 1, dtype=torch.bool)
        )

    def log_probs(self, key: int, tokens: list[int]) -> list[float]:
        bucket = key
        for token in [BEGIN, *tokens]:
            bucket = (bucket * 31 + token * 7 + 13) % BUCKETS
        logits = self.table[bucket].tolist()
        if max(logits) == -math.inf:
            return logits
        whole = math.log(sum(math.exp(x) for x in logits))
        return [x - whole for x in logits]

    def teacher_forced(self, key: int, tokens: list[int], given: int = 0) -> float:
        return sum(self.log_probs(key, tokens[:i])[tokens[i]] for i in range(given, len(tokens)))

    def start(self, memory: Memory, beams: int, capacity: int) -> State:
        keys = memory.states[:, 0, 0].long()
        cache = torch.full((len(keys), capacity, beams), -99)
        origin = torch.full((len(keys) * beams, capacity), -1)
        carry = {"bucket": keys.repeat_interleave(beams)}
        return State(beams, torch.tensor(0), {"key": keys}, {"tokens": cache}, origin, carry)

    def step(self, ids: Tensor, state: State) -> tuple[Tensor, State]:
        keys, cache, carried = state.memory["key"], state.cache["tokens"], state.carry["bucket"]
        position, beams = int(state.position), state.beams
        assert ids.shape[0] == len(keys) * beams == len(state.origin) and cache.shape[2] == beams
        assert ids.shape[1] == 1 or position == 0
        assert ids.min() >= 0 and ids.max() < self.vocabulary
        end = position + ids.shape[1]
        assert end <= cache.shape[1], "more steps than there is capacity for"
        cache[:, position:end] = ids.view(len(keys), beams, -1).transpose(1, 2)
        state.origin[:, position:end] = torch.arange(beams).repeat(len(keys))[:, None]
        past = cache.repeat_interleave(beams, 0)[:, :end]
        tokens = past.gather(2, state.origin[:, :end, None])[:, :, 0]
        bucket = keys.repeat_interleave(state.beams)
        for at in range(end):
            bucket = (bucket * 31 + tokens[:, at] * 7 + 13) % BUCKETS
        for at in range(position, end):
            carried = (carried * 31 + tokens[:, at] * 7 + 13) % BUCKETS
        assert torch.equal(bucket, carried), "cache and carry disagree"
        state.carry["bucket"].copy_(carried)
        state.position += ids.shape[1]
        self.beams_seen.append(len(ids))
        logits = torch.full((*ids.shape, self.vocabulary), torch.nan)  # only the last position may be read
        logits[:, -1] = self.table[bucket]
        return logits, state
