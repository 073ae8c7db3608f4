"""Sampling one token at a time for one row, for as long as one likes: what is drawn is handed out at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from regard.decoding.opening import first_ids, next_log_probs
from regard.decoding.rules import Rule
from regard.decoding.sampling import check_sampling, distribution, draw
from regard.types import END, State, Steps, nothing


class Drawn(NamedTuple):
    """A token and how likely the model found it, at temperature 1 and without cut-offs."""

    id: int
    log_probability: float


def stream(
    decoder: Steps,
    *,
    window: int,
    prompt: Sequence[int] = (),
    length: int = 0,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: int = 0,
    rules: Sequence[Rule] = (),
    device: torch.device | str = "cpu",
) -> Iterator[Drawn]:
    """Goes on after the prompt until END, which is handed out too, or until `length` tokens were drawn (0: for ever).

    A decoder that keeps every token in a slot has `window` of them. When they are full it reads the last half of what
    they held anew, after BEGIN as its training did, and goes on: what lies farther back is forgotten. One that carries
    a state needs no slots and forgets as it will. Within the window the same seed gives what `sample` gives.
    """
    check_sampling(temperature, top_k, top_p)
    if window < 2:
        raise ValueError(f"a window of {window} holds no token besides BEGIN")
    numbers = torch.Generator().manual_seed(seed)
    torch.rand(len(prompt), generator=numbers)  # `sample` counts its draws from the first token of the prompt
    state, fed, drawn = None, None, 0
    history = torch.tensor([list(prompt)], dtype=torch.long, device=device)
    while not length or drawn < length:
        with torch.inference_mode():  # left before a token is handed out: what its reader computes is his affair
            if state is None or fed is None or (state.slots and int(state.position) + 1 > window):
                state, fed = _begun(decoder, window, history)
            logits, state = decoder.step(fed, state)
            log_probs = next_log_probs(logits, history, rules)
            probs, tokens = distribution(log_probs, temperature, top_k, top_p)
            place = draw(probs, torch.rand(1, generator=numbers).to(device))[:, None]
            fed = place if tokens is None else tokens.gather(1, place)
            history = torch.cat([history, fed], 1)
            token, gain = int(fed), float(log_probs.gather(1, fed))
        if not gain > -torch.inf:  # nothing is allowed, or nothing is known: the text ends
            return
        drawn += 1
        yield Drawn(token, gain)
        if token == END:
            return


def _begun(decoder: Steps, window: int, history: Int[Tensor, "1 N"]) -> tuple[State, Int[Tensor, "1 M"]]:
    """A new state, and what it is to read first: BEGIN and as much of the history as leaves room to go on."""
    state = decoder.start(nothing(1, history.device), rows=1, capacity=window)
    kept = history if not state.slots or history.shape[1] < window else history[:, -(window // 2) :]
    return state, first_ids(1, kept, history.device)
