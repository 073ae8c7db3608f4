"""Constraints as tensors, and where the words of a vocabulary begin and end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.decoding.constraints import Constraint, Start

NONE = -1
"""Fills up the tokens of a form."""


@dataclass(frozen=True, eq=False)
class WordEdges:
    """What the tokens of a vocabulary say about words."""

    begins: Bool[Tensor, "V"]
    """Whether a word before the token ends: it begins with a space or a sign."""
    allows: Bool[Tensor, "V_and_text_start kinds"]
    """For each token, and in the last row for the beginning of the text: which kinds of `Start` may follow."""

    @classmethod
    def of(cls, begins: Sequence[bool], ends: Sequence[bool], ends_sentence: Sequence[bool]) -> WordEdges:
        """By token: whether it begins outside of a word, ends outside of one, ends a sentence."""
        allows = [[True, word, sentence, False] for word, sentence in zip(ends, ends_sentence, strict=True)]
        return cls(torch.tensor(begins), torch.tensor([*allows, [True] * len(Start)]))

    def to(self, device: torch.device) -> WordEdges:
        return self if self.begins.device == device else WordEdges(self.begins.to(device), self.allows.to(device))


class ConstraintTensors(NamedTuple):
    """The constraints of all sentences: K forms of up to M tokens that belong to G terms."""

    tokens: Int[Tensor, "B K M"]
    sizes: Int[Tensor, "B K"]
    """Tokens of each form; 0 where there is none."""
    starts: Int[Tensor, "B K"]
    whole: Bool[Tensor, "B K"]
    of_term: Bool[Tensor, "B K G"]
    times: Int[Tensor, "B G"]
    bonus: Float[Tensor, "B G"]
    """Infinite where the term is obligatory."""

    def select(self, sentences: Int[Tensor, "N"]) -> ConstraintTensors:
        return ConstraintTensors(*(tensor.index_select(0, sentences) for tensor in self))


def as_tensors(constraints: Sequence[Sequence[Constraint]], device: torch.device) -> ConstraintTensors:
    """The constraints of each sentence."""
    rows = [[(form, number) for number, term in enumerate(terms) for form in term.forms] for terms in constraints]
    forms = max(1, *map(len, rows))
    longest = max((len(form.tokens) for row in rows for form, _ in row), default=1)
    terms = max(1, *map(len, constraints))
    shape = (len(rows), forms)
    tokens = torch.full((*shape, longest), NONE)
    sizes, starts = torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.long)
    whole, of_term = torch.zeros(shape, dtype=torch.bool), torch.zeros((*shape, terms), dtype=torch.bool)
    times, bonus = torch.zeros(len(rows), terms, dtype=torch.long), torch.zeros(len(rows), terms)
    for sentence, row in enumerate(rows):
        for place, (form, number) in enumerate(row):
            tokens[sentence, place, : len(form.tokens)] = torch.tensor(form.tokens)
            sizes[sentence, place], starts[sentence, place] = len(form.tokens), form.start
            whole[sentence, place], of_term[sentence, place, number] = form.whole, True
        for number, term in enumerate(constraints[sentence]):
            times[sentence, number], bonus[sentence, number] = term.times, term.bonus
    made = ConstraintTensors(tokens, sizes, starts, whole, of_term, times, bonus)
    return ConstraintTensors(*(tensor.to(device) for tensor in made))
