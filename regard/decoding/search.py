"""The base of every search: tensors that a step updates in place, for all sentences at once, until all are finished.

A step does the same work every time and never reads from the device, so that on a GPU it can be captured and replayed
(cuda_graph.py). How tokens are chosen and hypotheses kept is a kind of search: beam.py, walk.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from regard.decoding.cancellation import cancelled_sentences
from regard.decoding.opening import next_log_probs
from regard.decoding.rules import Rule
from regard.decoding.step_callback import step_callback
from regard.states import Hypothesis, StepwiseDecoder, grow, narrow
from regard.types import Memory, State, Tree, map_tree

CHECK_EVERY = 8
"""Steps between two checks for finished sentences, where reading from the device means waiting for it."""
FIRST_CAPACITY = 32
"""Initial positions of the KV cache; they double when full, since most outputs are shorter than their limit."""


@dataclass
class Search(ABC):
    """A search in progress. The first axis of tensors is the sentence, except `ids` and the state, where it is the
    beam."""

    decoder: StepwiseDecoder
    rules: Sequence[Rule]
    state: State
    ids: Int[Tensor, "R N"]
    """The decoder's next input: first BEGIN and a forced prefix, later one token per beam."""
    written: Int[Tensor, ""]
    """Tokens that each beam has, forced ones included."""
    limits: Int[Tensor, "B"]
    over: Bool[Tensor, "B"]
    """Finished sentences, of which nothing changes any more."""

    @abstractmethod
    def advance(self) -> None:
        """One more token for every sentence that is not finished."""

    @abstractmethod
    def results(self) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence, best first; valid for finished sentences."""

    def setting(self) -> Hashable:
        """All that a step depends on besides the shapes of the tensors."""
        return type(self), tuple((type(rule), rule.setting) for rule in self.rules)

    def step(self) -> Float[Tensor, "R T V"]:
        """Feeds `ids` to the decoder; returns logits, of which only the last position's count."""
        step = getattr(self.decoder, "step_last", self.decoder.step)
        logits, state = step(self.ids, self.state)
        _copy_into(self.state.position, state.position)
        _copy_into(self.state.carry, state.carry)
        return logits

    def read(self, history: Int[Tensor, "R N"]) -> Float[Tensor, "R V"]:
        """A step; returns the log-probabilities of the next token after the rules."""
        return next_log_probs(self.step(), history, self.rules, self.written)

    def feed(self, tokens: Int[Tensor, "R"]) -> None:
        if self.ids.shape[1] == 1:
            self.ids.copy_(tokens[:, None])
        else:
            self.ids = tokens[:, None].clone()

    def tensors(self) -> Tree:
        held = [rule.held for rule in self.rules]
        state = self.state
        return [self._own(), state.position, state.memory, state.cache, state.origin, state.carry, held]

    def narrow(self, sentences: Int[Tensor, "N"]) -> Any:
        """The search of these sentences only."""
        ids = self.ids.unflatten(0, (-1, self.state.beams)).index_select(0, sentences).flatten(0, 1)
        others: dict[str, Any] = {
            name: value.index_select(0, sentences)
            for name, value in self._own().items()
            if name != "ids" and value.ndim > 0
        }
        rules = [rule.narrow(sentences) for rule in self.rules]
        return replace(self, state=narrow(self.state, sentences), ids=ids, rules=rules, **others)

    def capacity(self) -> int | None:
        """Positions of the KV cache; None for a decoder without one."""
        found: list[int] = []
        map_tree(lambda t: found.append(t.shape[1]) or t, self.state.cache)  # type: ignore[func-returns-value]
        return found[0] if found else None

    def grow(self, capacity: int) -> Any:
        """The same search with a larger KV cache."""
        return replace(self, state=grow(self.state, capacity))

    def _own(self) -> dict[str, Tensor]:
        return {f.name: value for f in fields(self) if isinstance(value := vars(self)[f.name], Tensor)}


def run(search: Search, sentences: int, forced: int) -> list[list[Hypothesis]]:
    """Advances until all sentences are finished. The first `sentences` are real, the rest pad the batch to its shape.

    Continuing with fewer sentences copies all their tensors, so finished ones are dropped only when there are many.
    """
    longest = int(search.limits.max())
    found: list[list[Hypothesis]] = [[] for _ in range(sentences)]
    order = list(range(sentences))
    graphed = uses_cuda_graphs(search.over.device)
    steps: Any = search
    for written in range(forced + 1, longest + 1):
        if graphed and steps is search and steps.ids.shape[1] == 1:  # a forced prefix is read before that
            steps = with_cuda_graph(steps, search.decoder)
        capacity = steps.capacity()
        if capacity is not None and written > capacity:
            grown = steps.grow(min(2 * capacity, padded_length(longest, graphed)))
            steps = with_cuda_graph(grown, search.decoder) if graphed else grown
        steps.advance()
        if graphed and written < longest and (written - forced) % CHECK_EVERY:
            continue
        if (cancelled := cancelled_sentences()) and (lost := [at for at, n in enumerate(order) if n in cancelled]):
            steps.over[lost] = True
        over = steps.over[: len(order)].cpu()
        left = len(order) - int(over.count_nonzero())
        if left and not (2 * bucket(left) <= bucket(len(order)) if graphed else 4 * left <= 3 * len(order)):
            continue
        results = steps.results()
        for index, number in enumerate(order):
            if over[index]:
                found[number] = results[index]
        if not left:
            break
        stay = (~over).nonzero()[:, 0]
        order = [order[index] for index in stay.tolist()]
        if not graphed:
            steps = steps.narrow(stay)
            continue
        narrowed = steps.narrow(stay[torch.arange(bucket(left)).clamp(max=left - 1)].to(steps.over.device))
        narrowed.over[left:] = True
        steps = with_cuda_graph(narrowed, search.decoder)
    return found


def uses_cuda_graphs(device: torch.device) -> bool:
    return device.type == "cuda" and step_callback() is None


def with_cuda_graph(search: Any, decoder: StepwiseDecoder) -> Any:
    """The search with its steps replayed as a CUDA graph."""
    from regard.decoding.cuda_graph import GraphedSearch

    return GraphedSearch(search, decoder)


def padded_length(length: int, graphed: bool) -> int:
    """Room for `length` tokens; with CUDA graphs, one of a few sizes."""
    return -(-length // 64) * 64 if graphed else length


def bucket(sentences: int) -> int:
    """The next larger of a few batch sizes: 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, ..."""
    power = 1 << max(0, sentences - 1).bit_length()
    return 3 * power // 4 if sentences <= 3 * power // 4 else power


def pad_batch(memory: Memory, rules: Sequence[Rule]) -> tuple[Memory, list[Rule], Int[Tensor, "N"]]:
    """For CUDA graphs, pads memory and rules to one of a few shapes by repeating the last sentence; elsewhere it
    changes nothing. Also returns which sentence each entry is."""
    sentences, device = len(memory), memory.states.device
    if not uses_cuda_graphs(device):
        return memory, list(rules), torch.arange(sentences, device=device)
    index = torch.arange(bucket(sentences), device=device).clamp(max=sentences - 1)
    more = -memory.mask.shape[1] % 16
    padded = Memory(
        F.pad(memory.states.index_select(0, index), (0, 0, 0, more)),
        F.pad(memory.mask.index_select(0, index), (0, more)),
        map_tree(lambda t: t.index_select(0, index), memory.final),
    )
    return padded, [rule.narrow(index) for rule in rules], index


def _copy_into(kept: Tree, new: Tree) -> None:
    """Copies the tensors that a step returned into those it received, unless it wrote them in place."""
    if isinstance(kept, Tensor):
        if kept is not new:
            kept.copy_(new)
    elif isinstance(kept, dict):
        for key in kept:
            _copy_into(kept[key], new[key])
    elif isinstance(kept, (list, tuple)):
        for one, other in zip(kept, new, strict=True):
            _copy_into(one, other)
