"""Hypotheses, and the score that ranks them: shared by the searches of all engines."""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Hypothesis:
    """One output of a search, without BEGIN and END."""

    ids: list[int]
    log_probability: float
    """Sum over the tokens, END included when it was reached."""
    score: float
    """What the search ranks by: the log-probability after the length penalty."""
    finished: bool = True
    """False if the length limit cut it off before END."""
    attention: Any = field(default=None, repr=False, compare=False)
    """Of its tokens to those of the source, by the decoder's last layer, where the search returned it."""


def penalty(length: int, exponent: float) -> float:
    """The length penalty, by which a log-probability is divided (Wu et al. 2016, eq. 14); `length` counts END."""
    return ((5 + length) / 6) ** exponent
