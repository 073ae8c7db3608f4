"""One hypothesis per sentence, one token at a time: what greedy decoding and sampling share.

The caller provides the function that chooses a token.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.opening import first_ids, next_log_probs
from regard.decoding.rules import Rule
from regard.decoding.search import FIRST_CAPACITY, Search, pad_batch, padded_length, run, uses_cuda_graphs
from regard.decoding.step_callback import Step, step_callback
from regard.states import Hypothesis, StepwiseDecoder
from regard.types import END, Memory

Choose = Callable[[Float[Tensor, "B V"], Float[Tensor, "B"]], Int[Tensor, "B"]]
"""Log-probabilities and one random number in 0..1 per sentence to one token per sentence. Two functions that choose
alike must be equal and have the same hash."""


@torch.inference_mode()
def walk(
    decoder: StepwiseDecoder,
    memory: Memory,
    choose: Choose,
    *,
    max_lengths: Int[Tensor, "B"],
    rules: Sequence[Rule] = (),
    prefix: Int[Tensor, "B P"] | None = None,
    numbers: Float[Tensor, "B L"] | None = None,
) -> list[Hypothesis]:
    """Writes until END or `max_lengths` tokens (prefix and END included). `numbers[:, t]` go to choice t."""
    sentences, device = len(memory), memory.states.device
    if sentences == 0:
        return []
    memory, rules, index = pad_batch(memory, rules)
    ids = first_ids(sentences, prefix, device).index_select(0, index)
    forced = ids.shape[1] - 1
    limits = max_lengths.to(device).clamp(min=forced + 1).index_select(0, index)
    longest, graphed = int(limits.max()), uses_cuda_graphs(device)

    history = torch.full((len(index), padded_length(longest, graphed)), END, device=device)
    history[:, :forced] = ids[:, 1:]
    drawn = torch.zeros(history.shape, device=device)
    if numbers is not None:
        drawn[:, : numbers.shape[1]] = numbers[:, : drawn.shape[1]].to(device).index_select(0, index)
    search = Walk(
        decoder,
        rules,
        decoder.start(memory, 1, min(history.shape[1], max(FIRST_CAPACITY, forced + 1))),
        ids,
        torch.tensor(forced, device=device),
        limits,
        torch.arange(len(index), device=device) >= sentences,
        history,
        torch.zeros(len(index), device=device),
        drawn,
        torch.zeros(len(index), device=device),
        choose,
    )
    return [hypotheses[0] for hypotheses in run(search, sentences, forced)]


@dataclass
class Walk(Search):
    """A greedy or sampling search in progress."""

    history: Int[Tensor, "B L"]
    """The tokens after BEGIN, filled up with END."""
    totals: Float[Tensor, "B"]
    numbers: Float[Tensor, "B L"]
    gains: Float[Tensor, "B"]
    """The log-probabilities of the last tokens."""
    choose: Choose
    repetition_penalty: float = 1.0

    def setting(self) -> Hashable:
        return super().setting(), self.choose, self.repetition_penalty

    def advance(self) -> None:
        logits = self.step()
        log_probs = preferred = next_log_probs(logits, self.history, self.rules, self.written)
        if self.repetition_penalty != 1:
            preferred = penalised(log_probs, logits[:, -1], self.history, self.written, self.repetition_penalty)
        tokens = self.choose(preferred, self.numbers.index_select(1, self.written[None])[:, 0])
        gains = log_probs.gather(1, tokens[:, None])[:, 0].nan_to_num_(nan=-torch.inf, neginf=-torch.inf)
        tokens = tokens.masked_fill(self.over | (gains == -torch.inf), END)  # where the rules allow nothing, it ends
        self.gains.copy_(gains)
        self.totals += gains.masked_fill_(self.over, 0.0)
        self.history.index_copy_(1, self.written[None], tokens[:, None])
        self.written += 1
        if callback := step_callback():
            ended = (tokens == END)[:, None]
            going, ends = (self.totals[:, None].masked_fill(out, -torch.inf) for out in (ended, ~ended))
            callback(Step(torch.zeros_like(tokens)[:, None], tokens[:, None], going, ends, ends, ended))
        self.over |= (tokens == END) | (self.limits <= self.written)
        self.feed(tokens)

    def with_numbers(self, numbers: Float[Tensor, "B N"]) -> Walk:
        """The same search with more numbers, and room for as many tokens."""
        more = self.history.new_full((len(numbers), numbers.shape[1] - self.history.shape[1]), END)
        return replace(self, history=torch.cat([self.history, more], 1), numbers=numbers)

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


def penalised(
    log_probs: Float[Tensor, "B V"],
    logits: Float[Tensor, "B V"],
    history: Int[Tensor, "B L"],
    written: Int[Tensor, ""],
    penalty: float,
) -> Float[Tensor, "B V"]:
    """What to draw from instead of the log-probabilities, up to a constant: the logits of tokens that are there already
    are divided by the penalty, or multiplied with it where they are negative (Keskar et al. 2019)."""
    scores, position = logits.float(), torch.arange(history.shape[1], device=history.device)
    there = torch.where(position < written, history, history[:, :1])  # what is not written yet counts as the first
    before = scores.gather(1, there)
    after = torch.where(before > 0, before / penalty, before * penalty)
    scores = scores.scatter(1, there, torch.where(written > 0, after, before))
    return scores.masked_fill(log_probs == -torch.inf, -torch.inf)
