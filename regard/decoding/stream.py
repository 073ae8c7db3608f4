"""Streaming generation: samples one token at a time without a length limit and yields each at once.

Several texts may continue one prompt together. The search is the one of `sample` (walk.py), so on a GPU its steps are
replayed as CUDA graphs, and all that is read back in a step are the tokens and their log-probabilities.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from regard.decoding.opening import first_ids
from regard.decoding.rules import Rule
from regard.decoding.sampling import Drawing, check_sampling
from regard.decoding.search import uses_cuda_graphs, with_cuda_graph
from regard.decoding.walk import Walk
from regard.states import StepwiseDecoder, empty_memory
from regard.types import END

ROOM = 64
"""Initial positions of the KV cache and of the history; they double when full."""


class Drawn(NamedTuple):
    """A token and its log-probability, at temperature 1 and without top-k and top-p."""

    id: int
    log_probability: float


def stream(
    decoder: StepwiseDecoder, *, window: int, prompt: Sequence[int] = (), seed: int = 0, **options: Any
) -> Iterator[Drawn]:
    """Continues the prompt until END, which is yielded too, or for `length` tokens (0: without limit).

    `options` are those of `stream_together`. Within the window the same seed gives the same tokens as `sample`.
    """
    for (drawn,) in stream_together(decoder, window=window, prompt=prompt, seeds=[seed], **options):
        assert drawn is not None
        yield drawn


def stream_together(
    decoder: StepwiseDecoder,
    *,
    window: int,
    seeds: Sequence[int],
    prompt: Sequence[int] = (),
    length: int = 0,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    repetition_penalty: float = 1.0,
    rules: Sequence[Rule] = (),
    begin: bool = True,
    device: torch.device | str = "cpu",
) -> Iterator[list[Drawn | None]]:
    """Continues the prompt once for each seed; in each step a token for each text, None where it has ended.

    Without `begin` the prompt has its own beginning and is read as it is.

    The KV cache has at most `window` positions. When it is full, the decoder reads the last half of them again, after
    BEGIN as in training, and continues: earlier tokens are forgotten. A recurrent decoder has no cache and needs no
    window.
    """
    check_sampling(temperature, top_k, top_p, repetition_penalty)
    if window < 2:
        raise ValueError(f"a window of {window} holds no token besides BEGIN")
    device, choose = torch.device(device), Drawing(temperature, top_k, top_p)
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    numbers = torch.empty(len(seeds), 0)
    texts = [list(prompt) for _ in seeds]
    going = [True] * len(seeds)
    steps: Any = None
    used = 0  # positions of the cache, after the next step
    for written in range(len(prompt), len(prompt) + length) if length else count(len(prompt)):
        with torch.inference_mode():  # left before tokens are yielded: the consumer may need gradients
            if written >= numbers.shape[1]:  # `sample` counts its draws from the first token of the prompt
                numbers = torch.cat([numbers, _more(generators, _room(written + 1) - numbers.shape[1])], 1)
            capacity = None if steps is None else steps.capacity()
            if steps is None or (capacity is not None and used + 1 > window):
                steps = None  # its CUDA graph may be used again
                steps = _begin(decoder, window, texts, begin, rules, numbers.to(device), choose, repetition_penalty)
                used = steps.ids.shape[1]
            else:
                used += 1
                full = capacity is not None and used > capacity
                if full or written >= steps.history.shape[1]:
                    steps, full = _roomier(steps, window, numbers), True
                if uses_cuda_graphs(device) and (full or isinstance(steps, Walk)):
                    steps = with_cuda_graph(steps, decoder)
            steps.advance()
            tokens, gains = steps.history[:, written].tolist(), steps.gains.tolist()
        found: list[Drawn | None] = []
        for number, (token, gain) in enumerate(zip(tokens, gains)):
            # The text ends, too, where the rules allow nothing, or the logits are NaN.
            drawn = Drawn(token, gain) if going[number] and gain > -torch.inf else None
            found.append(drawn)
            going[number] = drawn is not None and token != END
            texts[number].append(token)
        if any(found):
            yield found
        if not any(going):
            return


def _room(tokens: int) -> int:
    """Room for so many: ROOM, doubled as often as it takes. CUDA graphs are captured for few sizes."""
    return ROOM << max(0, (tokens - 1) // ROOM).bit_length()


def _more(generators: Sequence[torch.Generator], numbers: int) -> Float[Tensor, "B N"]:
    return torch.stack([torch.rand(numbers, generator=generator) for generator in generators])


def _begin(
    decoder: StepwiseDecoder,
    window: int,
    texts: Sequence[list[int]],
    begin: bool,
    rules: Sequence[Rule],
    numbers: Float[Tensor, "B L"],
    choose: Drawing,
    repetition_penalty: float,
) -> Walk:
    """A search whose first step reads the texts: BEGIN and as much of them as leaves room to continue."""
    device, written = numbers.device, len(texts[0])
    history = torch.full(numbers.shape, END, device=device)
    history[:, :written] = told = torch.tensor(texts, dtype=torch.long, device=device)
    longest = written + int(begin or written >= window)
    state = decoder.start(empty_memory(len(texts), device), 1, min(window, _room(longest)))
    if state.cache and written >= window:
        told, begin = told[:, -(window // 2) :], True
    return Walk(
        decoder,
        rules,
        state,
        first_ids(len(texts), told, device) if begin else told,
        torch.tensor(written, device=device),
        torch.full((len(texts),), 2**62, device=device),
        torch.zeros(len(texts), dtype=torch.bool, device=device),
        history,
        torch.zeros(len(texts), device=device),
        numbers,
        torch.zeros(len(texts), device=device),
        choose,
        repetition_penalty,
    )


def _roomier(steps: Any, window: int, numbers: Float[Tensor, "B N"]) -> Walk:
    """The search with twice the room in its cache, and in its history for as many tokens as there are numbers."""
    capacity = steps.capacity()
    if capacity is not None and capacity < window:
        steps = steps.grow(min(window, 2 * capacity))
    return steps.with_numbers(numbers.to(steps.history.device))
