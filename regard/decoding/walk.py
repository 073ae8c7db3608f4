"""One row a sentence, one token at a time, never going back: what greedy decoding and sampling share.

How a token is chosen is the caller's affair.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.opening import first_ids, next_log_probs
from regard.decoding.rules import Rule
from regard.types import END, Hypothesis, Memory, Steps, narrow

Choose = Callable[[Float[Tensor, "B V"], Float[Tensor, "B"]], Int[Tensor, "B"]]
"""From the log-probabilities and one number between 0 and 1 a sentence: a token a sentence."""


@torch.no_grad()
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
    ids = first_ids(sentences, prefix, device)
    given = ids.shape[1] - 1
    limits = max_lengths.to(device).clamp(min=given + 1)
    longest = int(limits.max())
    numbers = torch.zeros(sentences, longest, device=device) if numbers is None else numbers.to(device)

    state = decoder.start(memory, 1, longest)
    history = torch.full((sentences, longest), END, device=device)
    history[:, :given] = ids[:, 1:]
    totals = torch.zeros(sentences, device=device)
    done = torch.zeros(sentences, dtype=torch.bool, device=device)
    order = torch.arange(sentences, device=device)
    found: dict[int, Hypothesis] = {}

    for length in range(given + 1, longest + 1):
        logits, state = decoder.step(ids, state)
        log_probs = next_log_probs(logits, history[:, : length - 1], rules)
        tokens = choose(log_probs, numbers[:, length - 1])
        gains = log_probs.gather(1, tokens[:, None])[:, 0].nan_to_num_(nan=-torch.inf, neginf=-torch.inf)
        tokens = tokens.masked_fill(done | (gains == -torch.inf), END)  # where nothing is allowed, the sentence ends
        totals += gains.masked_fill_(done, 0.0)
        history[:, length - 1] = tokens
        done |= (tokens == END) | (limits <= length)

        left = int(done.numel() - done.count_nonzero())
        if left == 0:
            break
        if 4 * left <= 3 * len(order):
            found.update(_collect(order[done], history[done], totals[done], limits[done]))
            keep = (~done).nonzero()[:, 0]
            state, rules = narrow(state, keep), [rule.narrow(keep) for rule in rules]
            order, history, totals, limits, numbers, done, tokens = (
                t.index_select(0, keep) for t in (order, history, totals, limits, numbers, done, tokens)
            )
        ids = tokens[:, None]

    found.update(_collect(order, history, totals, limits))
    return [found[number] for number in range(sentences)]


def _collect(
    order: Int[Tensor, "N"], history: Int[Tensor, "N L"], totals: Float[Tensor, "N"], limits: Int[Tensor, "N"]
) -> dict[int, Hypothesis]:
    found = {}
    for number, row, total, limit in zip(
        order.tolist(), history.tolist(), totals.tolist(), limits.tolist(), strict=True
    ):
        ids = row[:limit]
        ended = END in ids
        if ended:
            ids = ids[: ids.index(END)]
        found[number] = Hypothesis(ids, total, total, finished=ended and total > -torch.inf)
    return found
