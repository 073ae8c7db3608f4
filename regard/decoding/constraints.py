"""What outputs must or should have: token sequences, several for one term. Plain data; imports no torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple


class Start(IntEnum):
    """After which token a form may begin."""

    ANYWHERE = 0
    """Its first token begins a word by itself."""
    AT_WORD = 1
    """Where no word is open, such as after an apostrophe."""
    AT_SENTENCE = 2
    """Where a sentence begins."""
    AT_TEXT = 3
    """Where the text begins."""


class TokenForm(NamedTuple):
    """One way to write a term."""

    tokens: tuple[int, ...]
    start: Start = Start.ANYWHERE
    whole: bool = True
    """Whether the word must end after it."""


class Constraint(NamedTuple):
    """A term: any of its forms, `times` times. A form counts once at every place where it ends."""

    forms: tuple[TokenForm, ...]
    times: int = 1
    bonus: float = math.inf
    """What a hypothesis with the term gains over its log-probability; infinite: no other is accepted."""


def tokens_needed(constraints: Sequence[Constraint]) -> int:
    """The fewest tokens that all terms together take, if they share none."""
    return sum(term.times * min(len(form.tokens) for form in term.forms) for term in constraints)
