"""One row a sentence, one token at a time, never going back: what greedy decoding and sampling share.

How a token is chosen is the caller's affair.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.opening import first_ids
from regard.decoding.recording import wanted
from regard.decoding.rules import Rule
from regard.decoding.search import FIRST_SLOTS, Search, filled_up, room, run
from regard.decoding.watching import Step, watcher
from regard.types import END, Hypothesis, Memory, Steps

Choose = Callable[[Float[Tensor, "B V"], Float[Tensor, "B"]], Int[Tensor, "B"]]
"""From the log-probabilities and one number between 0 and 1 a sentence: a token a sentence. Two that choose alike are
equal and have the same hash."""


@torch.inference_mode()
def walk(
    decoder: Steps,
    memory: Memory,
    choose: Choose,
    *,
    max_lengths: Int[Tensor, "B"],
    rules: Sequence[Rule] = (),
    prefix: Int[Tensor, "B P"] | None = None,
    numbers: Float[Tensor, "B L"] | None = None,
) -> list[Hypothesis]:
    """Until END or a sentence's `max_lengths` tokens (prefix and END included). `numbers[:, t]` go to choice t."""
    sentences, device = len(memory), memory.states.device
    if sentences == 0:
        return []
    memory, rules, index = filled_up(memory, rules)
    ids = first_ids(sentences, prefix, device).index_select(0, index)
    given = ids.shape[1] - 1
    limits = max_lengths.to(device).clamp(min=given + 1).index_select(0, index)
    longest, recorded = int(limits.max()), wanted(device)

    history = torch.full((len(index), room(longest, recorded)), END, device=device)
    history[:, :given] = ids[:, 1:]
    drawn = torch.zeros(history.shape, device=device)
    if numbers is not None:
        drawn[:, : numbers.shape[1]] = numbers[:, : drawn.shape[1]].to(device).index_select(0, index)
    search = Walk(
        decoder,
        rules,
        decoder.start(memory, 1, min(history.shape[1], max(FIRST_SLOTS, given + 1))),
        ids,
        torch.tensor(given, device=device),
        limits,
        torch.arange(len(index), device=device) >= sentences,
        history,
        torch.zeros(len(index), device=device),
        drawn,
        choose,
    )
    return [hypotheses[0] for hypotheses in run(search, sentences, given)]


@dataclass
class Walk(Search):
    """Sentences of one row each."""

    history: Int[Tensor, "B L"]
    """The tokens after BEGIN, END from the end on."""
    totals: Float[Tensor, "B"]
    numbers: Float[Tensor, "B L"]
    choose: Choose

    def setting(self) -> Hashable:
        return super().setting(), self.choose

    def advance(self) -> None:
        log_probs = self.read(self.history)
        tokens = self.choose(log_probs, self.numbers.index_select(1, self.written[None])[:, 0])
        gains = log_probs.gather(1, tokens[:, None])[:, 0].nan_to_num_(nan=-torch.inf, neginf=-torch.inf)
        tokens = tokens.masked_fill(self.over | (gains == -torch.inf), END)  # where nothing is allowed, it ends
        self.totals += gains.masked_fill_(self.over, 0.0)
        self.history.index_copy_(1, self.written[None], tokens[:, None])
        self.written += 1
        if told := watcher():
            ended = (tokens == END)[:, None]
            going, ends = (self.totals[:, None].masked_fill(out, -torch.inf) for out in (ended, ~ended))
            told(Step(torch.zeros_like(tokens)[:, None], tokens[:, None], going, ends, ends, ended))
        self.over |= (tokens == END) | (self.limits <= self.written)
        self.feed(tokens)

    def results(self) -> list[list[Hypothesis]]:
        found = []
        limits = self.limits.tolist()
        history = self.history[:, : max(limits)].tolist()
        for row, total, limit in zip(history, self.totals.tolist(), limits, strict=True):
            ids = row[:limit]
            ended = END in ids
            if ended:
                ids = ids[: ids.index(END)]
            found.append([Hypothesis(ids, total, total, finished=ended and total > -torch.inf)])
        return found
