"""The distribution of the next token in every stage of sampling, and other answers with probabilities, as plain data.

record/next_token.py computes it, draw/next_token.py draws it.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Option:
    """A possible output and its probability."""

    token: str
    probability: float


@dataclass
class NextToken:
    """A candidate for the next token, with its probability in every stage of sampling."""

    token: str
    text: str
    """The text that it would append."""
    logit: float
    probability: float
    """The model's own: softmax of the logits."""
    tempered: float
    """After the temperature, without tokens that are never generated."""
    within_k: float
    """After top-k."""
    drawn: float
    """After top-p: the probability with which it is sampled."""


@dataclass
class Distribution:
    """The distribution of the next token, most likely first; the order is the same in every stage."""

    temperature: float
    top_k: int
    """0: no limit."""
    top_p: float
    tokens: list[NextToken] = field(default_factory=list)
    others: int = 0
    """How many tokens are not listed; `rest` is their total probability in each stage."""
    rest: dict[str, float] = field(default_factory=dict)

    def settings(self) -> str:
        """The sampling settings in one line."""
        cuts = [f"top-k {self.top_k}"] if self.top_k else []
        cuts += [f"top-p {self.top_p:g}"] if self.top_p < 1 else []
        return ", ".join([f"temperature {self.temperature:g}", *cuts])


@dataclass
class Guess:
    """A model's prediction, or the actual token, at one position, and the most likely alternatives."""

    about: str
    """The word or token that it is for; empty for the whole text."""
    given: str
    probability: float
    others: list[Option] = field(default_factory=list)
