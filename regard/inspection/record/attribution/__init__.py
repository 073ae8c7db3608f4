"""Attribution: which inputs made an output likely. A file per method, found by its name.

A method takes a `Subject` and returns `Found`. A file may say which models its method cannot explain (`unsuitable`) and
that it cannot explain one candidate against another (`CONTRASTS = False`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard import registry
from regard.data.tokenizer._base import SPACE, Tokenizer
from regard.errors import UserError, suggestion
from regard.inspection.record.attribution._subject import Found, Subject, Unit
from regard.inspection.trace.attribution import Attribution
from regard.inspection.trace.base import NO_WORD, SOURCE, TARGET, Choice, Trace
from regard.types import BEGIN, PAD, UNKNOWN

FAMILY = "inspection/record/attribution"
LIKELIEST = 10
"""Candidates that are listed for a contrast."""


@dataclass
class Axis:
    """Tokens, and the word of each, where there are words."""

    tokens: Sequence[str]
    words: Sequence[str] = ()
    word_of: Sequence[int] = ()
    skipped: int = 0
    """Tokens at the beginning that are no input, such as a class token."""

    def groups(self, by_token: bool) -> list[tuple[str, tuple[int, ...]]]:
        """The name and the tokens of each word; tokens that belong to none (END, a language tag) by themselves."""
        found: dict[tuple[str, int], list[int]] = {}
        for at in range(self.skipped, len(self.tokens)):
            word = NO_WORD if by_token or at >= len(self.word_of) else self.word_of[at]
            found.setdefault(("token", at) if word == NO_WORD else ("word", word), []).append(at)
        return [(self._name(*key, tokens), tuple(tokens)) for key, tokens in found.items()]

    def _name(self, kind: str, index: int, tokens: Sequence[int]) -> str:
        """Of spaces alone a model may make words that nobody would write; these are called by their tokens."""
        if kind == "word" and index < len(self.words):
            return self.words[index]
        return "".join(self.tokens[at] for at in tokens)


def written_axis(read: Sequence[str], words: Sequence[str], word_of: Sequence[int]) -> Axis:
    """The decoder's input: BEGIN, then the text."""
    return Axis(read, words, [NO_WORD, *word_of])


class Candidates(ABC):
    """The names of what a model could have given instead, in both directions."""

    hidden: Sequence[int] = ()
    """The indexes that are never given."""

    @abstractmethod
    def index(self, name: str) -> int: ...

    @abstractmethod
    def name(self, index: int) -> str: ...


class TokenCandidates(Candidates):
    """Tokens, as they are displayed; a word stands for its first token."""

    hidden = (PAD, UNKNOWN, BEGIN)

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer

    def index(self, name: str) -> int:
        for piece in (name, f"{SPACE}{name}"):
            if (token := self.tokenizer.id_of(piece)) is not None:
                return token
        ids = self.tokenizer.encode(name)
        if not ids:
            raise UserError(f"'{name}' is no token of this model")
        return int(ids[0])

    def name(self, index: int) -> str:
        return self.tokenizer.pieces([index])[0]


class LabelCandidates(Candidates):
    """Labels or tags."""

    def __init__(self, names: Sequence[str]):
        self.names = list(names)

    def index(self, name: str) -> int:
        if name not in self.names:
            raise UserError(f"no label '{name}'{suggestion(name, self.names)}")
        return self.names.index(name)

    def name(self, index: int) -> str:
        return self.names[index]


@dataclass
class Explainable:
    """A recorded input, and how to run the model on it again."""

    model: nn.Module
    log_probabilities: Callable[[int, int], Float[Tensor, "B T V"]]
    """`(copies, outputs)`: of the first outputs at least, for so many copies of the input."""
    chosen: Sequence[int]
    """The index of each output."""
    axes: dict[str, Axis]
    """SOURCE and TARGET: the inputs."""
    outputs: Axis
    candidates: Candidates
    pooled: Sequence[Sequence[int]] | None = None
    by_default: Sequence[int] | None = None
    """The outputs to explain if none is chosen; None: all."""
    methods: list[str] = field(default_factory=list)


def attributor(
    model: nn.Module,
    log_probabilities: Callable[[int, int], Float[Tensor, "B T V"]],
    chosen: Sequence[int],
    axes: dict[str, Axis],
    outputs: Axis,
    candidates: Candidates,
    pooled: Sequence[Sequence[int]] | None = None,
    by_default: Sequence[int] | None = None,
) -> Callable[[Trace, Choice], Attribution]:
    """A trace's `compute_attribution`."""
    explainable = Explainable(
        model, log_probabilities, chosen, axes, outputs, candidates, pooled, by_default, methods_of(model)
    )

    def compute(trace: Trace, choice: Choice) -> Attribution:
        return _attribution(explainable, trace, choice)

    return compute


def methods_of(model: nn.Module) -> list[str]:
    """The methods that can explain a model."""
    return [name for name in registry.kinds(FAMILY) if not _refusal(name, model)]


def _refusal(method: str, model: nn.Module) -> str:
    unsuitable = getattr(registry.module(FAMILY, method), "unsuitable", None)
    return unsuitable(model) if unsuitable else ""


def _attribution(given: Explainable, trace: Trace, choice: Choice) -> Attribution:
    method = choice.method
    if not registry.is_kind(FAMILY, method):
        raise UserError(f"no method '{method}'{suggestion(method, registry.kinds(FAMILY))}")
    if reason := _refusal(method, given.model):
        raise UserError(f"{method}: {reason}; use {', '.join(given.methods)}")
    rows = _rows(given, choice)
    contrast = _contrast(given, choice)
    outputs = [position for _, positions in rows for position in positions]
    last = max(outputs) + 1  # what is written later cannot matter
    units = [
        (name, Unit(side, tokens if side == SOURCE else tuple(at for at in tokens if at < last)))
        for side in (SOURCE, TARGET)
        if side in given.axes
        for name, tokens in given.axes[side].groups(choice.tokens)
        if side == SOURCE or tokens[0] < last
    ]
    with torch.inference_mode(False), torch.enable_grad():
        subject = Subject(
            given.model,
            lambda copies: given.log_probabilities(copies, last),
            [(position, given.chosen[position]) for position in outputs],
            [unit for _, unit in units],
            contrast,
            trace.attention,
            given.pooled,
        )
        found: Found = registry.factory(FAMILY, method)(subject)
        with torch.no_grad():
            log_probabilities = subject.run(subject.vectors)
            explained = subject.chosen(log_probabilities)[0].float().cpu().numpy()
            others = _others(given, outputs[0], log_probabilities[0, outputs[0]]) if len(outputs) == 1 else []
    combine = np.mean if found.mean else np.sum
    ends = np.cumsum([len(positions) for _, positions in rows])[:-1]
    return Attribution(
        method=method,
        rows=[name for name, _ in rows],
        outputs=[list(positions) for _, positions in rows],
        columns=[name for name, _ in units],
        sides=[unit.side for _, unit in units],
        values=np.stack([combine(part, axis=0) for part in np.split(found.values, ends)]).astype(np.float32),
        explained=[float(part.sum()) for part in np.split(explained, ends)],
        methods=given.methods,
        candidates=others,
        position=choice.position,
        contrast=choice.contrast,
        tokens=choice.tokens,
        completeness_error=found.completeness_error,
        steps=found.steps,
        options=choice.explained(),
    )


def _rows(given: Explainable, choice: Choice) -> list[tuple[str, tuple[int, ...]]]:
    """The outputs to explain: the one that was chosen, or all of them, grouped into words."""
    count = len(given.outputs.tokens)
    if choice.position is None:
        rows = given.outputs.groups(choice.tokens)
        kept = given.by_default
        return rows if kept is None else [(given.outputs.tokens[at], (at,)) for at in kept]
    if not 0 <= choice.position < count:
        raise UserError(f"position {choice.position}: the outputs are 0 to {count - 1}")
    return [(given.outputs.tokens[choice.position], (choice.position,))]


def _others(given: Explainable, position: int, log_probabilities: Float[Tensor, "V"]) -> list[str]:
    """The likeliest candidates that are not the output itself."""
    ranked = log_probabilities.argsort(descending=True)[: LIKELIEST + 1 + len(given.candidates.hidden)].tolist()
    left_out = {given.chosen[position], *given.candidates.hidden}
    return [given.candidates.name(index) for index in ranked if index not in left_out][:LIKELIEST]


def _contrast(given: Explainable, choice: Choice) -> int | None:
    if not choice.contrast:
        return None
    if not getattr(registry.module(FAMILY, choice.method), "CONTRASTS", True):
        raise UserError(f"{choice.method} is the same for every candidate; use another method to contrast two")
    if choice.position is None and len(given.outputs.tokens) > 1 and given.by_default is None:
        raise UserError(f"'{choice.contrast}' instead of which output? Give its position, from 0")
    index = given.candidates.index(choice.contrast)
    position = (given.by_default or [0])[0] if choice.position is None else choice.position
    if index == given.chosen[position]:
        raise UserError(f"'{choice.contrast}' is the output itself; give another candidate")
    return index
