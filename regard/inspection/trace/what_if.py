"""What a model does with some of its parts switched off or replaced, beside what it does as it is, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.inspection.trace.translation import TranslationTrace


@dataclass
class WhatIf:
    """One translation under interventions."""

    without: list[str]
    """The parts that were switched off or replaced, by name (record/parts.py)."""
    by: str
    """What replaced them: "zero" or "mean"."""
    patched: list[str]
    """The parts whose values came from the other sentence."""
    other: str
    """The other sentence; empty without patches."""
    other_translation: str
    after: TranslationTrace
    """The translation that the changed model finds."""
    probabilities: list[float] = field(default_factory=list)
    """What the changed model gives each token of the original translation."""
    log_probability: float = 0.0
    """Their sum as log-probability."""

    def summary(self) -> str:
        """What was changed, in a line."""
        zero = "replaced by the mean" if self.by == "mean" else "off"
        told = [f"{', '.join(self.without)} {zero}"] if self.without else []
        told += [f"{', '.join(self.patched)} from “{self.other}”"] if self.patched else []
        return "; ".join(told) or "nothing changed"
