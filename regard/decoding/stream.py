"""Streaming generation: samples one token at a time without a length limit and yields each at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.opening import first_ids, next_log_probs
from regard.decoding.rules import Rule
from regard.decoding.sampling import check_sampling, distribution, draw
from regard.states import StepwiseDecoder, empty_memory
from regard.types import END, State


class Drawn(NamedTuple):
    """A token and its log-probability, at temperature 1 and without top-k and top-p."""

    id: int
    log_probability: float


def stream(
    decoder: StepwiseDecoder,
    *,
    window: int,
    prompt: Sequence[int] = (),
    length: int = 0,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: int = 0,
    repetition_penalty: float = 1.0,
    rules: Sequence[Rule] = (),
    begin: bool = True,
    device: torch.device | str = "cpu",
) -> Iterator[Drawn]:
    """Continues the prompt until END, which is yielded too, or for `length` tokens (0: without limit).

    Without `begin` the prompt has its own beginning and is read as it is.

    The KV cache has `window` positions. When it is full, the decoder reads the last half of them again, after BEGIN as
    in training, and continues: earlier tokens are forgotten. A recurrent decoder has no cache and needs no window.
    Within the window the same seed gives the same tokens as `sample`.
    """
    check_sampling(temperature, top_k, top_p)
    if window < 2:
        raise ValueError(f"a window of {window} holds no token besides BEGIN")
    numbers = torch.Generator().manual_seed(seed)
    torch.rand(len(prompt), generator=numbers)  # `sample` counts its draws from the first token of the prompt
    state, fed, drawn = None, None, 0
    history = torch.tensor([list(prompt)], dtype=torch.long, device=device)
    while not length or drawn < length:
        with torch.inference_mode():  # left before a token is yielded: the consumer may need gradients
            if state is None or fed is None or (state.cache and int(state.position) + 1 > window):
                state, fed = _restart(decoder, window, history, begin)
            logits, state = decoder.step(fed, state)
            log_probs = next_log_probs(logits, history, rules)
            preferred = penalised(log_probs, logits[:, -1], history, repetition_penalty)
            probs, tokens = distribution(preferred, temperature, top_k, top_p)
            index = draw(probs, torch.rand(1, generator=numbers).to(device))[:, None]
            fed = index if tokens is None else tokens.gather(1, index)
            history = torch.cat([history, fed], 1)
            token, gain = int(fed), float(log_probs.gather(1, fed))
        if not gain > -torch.inf:  # the rules allow nothing, or the logits are NaN: the text ends
            return
        drawn += 1
        yield Drawn(token, gain)
        if token == END:
            return


def penalised(
    log_probs: Float[Tensor, "1 V"], logits: Float[Tensor, "1 V"], history: Int[Tensor, "1 N"], penalty: float
) -> Float[Tensor, "1 V"]:
    """What to draw from instead of the log-probabilities, up to a constant: the logits of tokens that are there already
    are divided by the penalty, or multiplied with it where they are negative (Keskar et al. 2019)."""
    if penalty == 1 or not history.shape[1]:
        return log_probs
    scores = logits.float()
    there = scores.gather(1, history)
    scores = scores.scatter(1, history, torch.where(there > 0, there / penalty, there * penalty))
    return scores.masked_fill(log_probs == -torch.inf, -torch.inf)


def _restart(
    decoder: StepwiseDecoder, window: int, history: Int[Tensor, "1 N"], begin: bool
) -> tuple[State, Int[Tensor, "1 M"]]:
    """A new state and its first input: BEGIN and as much of the history as leaves room to continue."""
    state = decoder.start(empty_memory(1, history.device), beams=1, capacity=window)
    if not begin and history.shape[1] < window:
        return state, history
    kept = history if not state.cache or history.shape[1] < window else history[:, -(window // 2) :]
    return state, first_ids(1, kept, history.device)
