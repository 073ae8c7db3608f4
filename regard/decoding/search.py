"""What every search is: tensors that a step changes in place, for all sentences together, until all are over.

A step is the same work every time and asks the host for nothing, so that on a GPU it can be recorded and replayed
(recording.py). Which token is taken, and what is remembered of it, is a kind of search: beam.py, walk.py.
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

from regard.decoding import recording
from regard.decoding.abandoning import abandoned
from regard.decoding.opening import next_log_probs
from regard.decoding.rules import Rule
from regard.types import Hypothesis, Memory, State, Steps, Tree, grow, map_tree, narrow

GLANCE = 8
"""Steps between two looks at which sentences are over, where looking means waiting for the device."""
FIRST_SLOTS = 32
"""Slots that are there at first; they double when they are full, as most sentences are shorter than they may be."""


@dataclass
class Search(ABC):
    """Searches under way. A tensor's first axis is the sentence, but for `ids` and the state, whose rows it is."""

    decoder: Steps
    rules: Sequence[Rule]
    state: State
    ids: Int[Tensor, "R N"]
    """What is fed next: at first BEGIN and a given beginning, later one token a row."""
    written: Int[Tensor, ""]
    """Tokens that each row has, those given included."""
    limits: Int[Tensor, "B"]
    over: Bool[Tensor, "B"]
    """Nothing of these sentences changes any more."""

    @abstractmethod
    def advance(self) -> None:
        """One token more for every sentence that is not over."""

    @abstractmethod
    def results(self) -> list[list[Hypothesis]]:
        """What was found for each sentence, best first; asked of those that are over."""

    def setting(self) -> Hashable:
        """Besides the shapes of the tensors, all that a step depends on."""
        return type(self), tuple((type(rule), rule.setting) for rule in self.rules)

    def read(self, history: Int[Tensor, "R N"]) -> Float[Tensor, "R V"]:
        """Feeds `ids` to the decoder; what the rules allow to come next."""
        logits, state = self.decoder.step(self.ids, self.state)
        _take_over(self.state.position, state.position)
        _take_over(self.state.carry, state.carry)
        return next_log_probs(logits, history, self.rules, self.written)

    def feed(self, tokens: Int[Tensor, "R"]) -> None:
        if self.ids.shape[1] == 1:
            self.ids.copy_(tokens[:, None])
        else:
            self.ids = tokens[:, None].clone()

    def tensors(self) -> Tree:
        held = [rule.held for rule in self.rules]
        state = self.state
        return [self._own(), state.position, state.memory, state.slots, state.origin, state.carry, held]

    def narrow(self, sentences: Int[Tensor, "N"]) -> Any:
        """Some of the sentences only."""
        ids = self.ids.unflatten(0, (-1, self.state.rows)).index_select(0, sentences).flatten(0, 1)
        others: dict[str, Any] = {
            name: value.index_select(0, sentences)
            for name, value in self._own().items()
            if name != "ids" and value.ndim > 0
        }
        rules = [rule.narrow(sentences) for rule in self.rules]
        return replace(self, state=narrow(self.state, sentences), ids=ids, rules=rules, **others)

    def slots(self) -> int | None:
        """How many tokens the state has room for; None where it keeps none."""
        found: list[int] = []
        map_tree(lambda t: found.append(t.shape[1]) or t, self.state.slots)  # type: ignore[func-returns-value]
        return found[0] if found else None

    def grow(self, slots: int) -> Any:
        """The same with room for more."""
        return replace(self, state=grow(self.state, slots))

    def _own(self) -> dict[str, Tensor]:
        return {f.name: value for f in fields(self) if isinstance(value := getattr(self, f.name), Tensor)}


def run(search: Search, sentences: int, given: int) -> list[list[Hypothesis]]:
    """Advances until all are over. `sentences` of the search are real, the rest is there to fill up its shape.

    Going on with fewer sentences costs a copy of all that is left, so those that are over wait until they are many.
    """
    longest = int(search.limits.max())
    found: list[list[Hypothesis]] = [[] for _ in range(sentences)]
    order = list(range(sentences))
    recorded = recording.wanted(search.over.device)
    steps: Any = search
    for written in range(given + 1, longest + 1):
        if recorded and steps is search and steps.ids.shape[1] == 1:  # a given beginning is read before that
            steps = recording.Steps(steps, search.decoder)
        slots = steps.slots()
        if slots is not None and written > slots:
            grown = steps.grow(min(2 * slots, room(longest, recorded)))
            steps = recording.Steps(grown, search.decoder) if recorded else grown
        steps.advance()
        if recorded and written < longest and (written - given) % GLANCE:
            continue
        if (unwanted := abandoned()) and (lost := [at for at, number in enumerate(order) if number in unwanted]):
            steps.over[lost] = True
        over = steps.over[: len(order)].cpu()
        left = len(order) - int(over.count_nonzero())
        if left and not (2 * bucket(left) <= bucket(len(order)) if recorded else 4 * left <= 3 * len(order)):
            continue
        results = steps.results()
        for place, number in enumerate(order):
            if over[place]:
                found[number] = results[place]
        if not left:
            break
        stay = (~over).nonzero()[:, 0]
        order = [order[place] for place in stay.tolist()]
        if not recorded:
            steps = steps.narrow(stay)
            continue
        narrowed = steps.narrow(stay[torch.arange(bucket(left)).clamp(max=left - 1)].to(steps.over.device))
        narrowed.over[left:] = True
        steps = recording.Steps(narrowed, search.decoder)
    return found


def room(length: int, recorded: bool) -> int:
    """Places for so many tokens: where steps are recorded, one of a few sizes."""
    return -(-length // 64) * 64 if recorded else length


def bucket(sentences: int) -> int:
    """As many or a few more: one of 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, ..."""
    power = 1 << max(0, sentences - 1).bit_length()
    return 3 * power // 4 if sentences <= 3 * power // 4 else power


def filled_up(memory: Memory, rules: Sequence[Rule]) -> tuple[Memory, list[Rule], Int[Tensor, "N"]]:
    """Where steps are recorded: a memory of one of a few shapes, its last sentence repeated and its positions padded;
    the rules likewise, and which sentence stands where. Elsewhere all is left as it is."""
    sentences, device = len(memory), memory.states.device
    if not recording.wanted(device):
        return memory, list(rules), torch.arange(sentences, device=device)
    index = torch.arange(bucket(sentences), device=device).clamp(max=sentences - 1)
    more = -memory.mask.shape[1] % 16
    padded = Memory(
        F.pad(memory.states.index_select(0, index), (0, 0, 0, more)),
        F.pad(memory.mask.index_select(0, index), (0, more)),
        map_tree(lambda t: t.index_select(0, index), memory.final),
    )
    return padded, [rule.narrow(index) for rule in rules], index


def _take_over(kept: Tree, new: Tree) -> None:
    """Writes what a step gave back over what it was given, unless it did so itself."""
    if isinstance(kept, Tensor):
        if kept is not new:
            kept.copy_(new)
    elif isinstance(kept, dict):
        for key in kept:
            _take_over(kept[key], new[key])
    elif isinstance(kept, (list, tuple)):
        for one, other in zip(kept, new, strict=True):
            _take_over(one, other)
