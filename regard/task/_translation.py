"""A translation, and the options that it is made with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypedDict

from torch import Tensor

from regard.decoding.cancellation import Cancelled


@dataclass
class Translation:
    """One translation; `str()` of it is its text."""

    source: str
    text: str
    score: float = 0.0
    """Log-probability after the length penalty: what translations of one sentence are ranked by."""
    log_probability: float = 0.0
    tokens: list[str] = field(default_factory=list)
    alignment: list[tuple[int, int]] | None = None
    """(source word, target word) pairs, counted from 0 over the words between spaces; None when not asked for."""
    attention: Tensor | None = field(default=None, repr=False, compare=False)
    """What the alignment was read from, (target words, source words)."""
    finished: bool = True
    """False when the length limit cut it off."""
    alternatives: list[Translation] = field(default_factory=list)

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """In a notebook: the alignment where it was asked for, else the text."""
        from regard.inspection.draw.heatmap import matrix_svg
        from regard.inspection.draw.style import safe

        words = self.source.split(), self.text.split()
        if self.attention is None or self.attention.shape != (len(words[1]), len(words[0])):
            return f'<p dir="auto">{safe(self.text)}</p>'
        return matrix_svg(self.attention, *words)


class TranslationOptions(TypedDict, total=False):
    """The keywords of `Translator.translate`."""

    beam: int | None
    """Hypotheses kept while searching, 1 to 1000; 1 is greedy. Without it, the recipe's."""
    n_best: int
    """Translations of each text, 1 to 1000: the best, and the others as its `alternatives`."""
    length_penalty: float | None
    """0 favours short translations, 1 long ones; 0 to 10."""
    max_length: int | None
    """Most tokens of a translation, 1 to 10,000."""
    batch_tokens: int | None
    """Tokens translated together."""
    alignment: bool
    """Whether to say which word came from which."""
    warn: Callable[[str], None] | None
    """Called with a line for each text that was too long and was split."""
    progress: Callable[[int], None] | None
    """Called with the number of texts (or parts of long ones) finished since the last call."""
    cancelled: Cancelled | None
    """Called between steps; returns the numbers of the texts that nobody waits for any more."""
