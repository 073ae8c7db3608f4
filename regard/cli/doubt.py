"""`regard translate --doubt`: translations with their doubtful words marked, and warnings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.confidence.marks import USUAL_THRESHOLD, marked_html, marked_text
from regard.terminal_text import one_line

if TYPE_CHECKING:
    from regard.cli.language_choice import LanguageChoice
    from regard.task._translation import Translation


Doubt = Annotated[
    float | None,
    typer.Option(
        "--doubt",
        metavar="[THRESHOLD]",
        min=0,
        max=1,
        help=f"Mark words with a confidence below this (by itself: {USUAL_THRESHOLD}) as [word?], and print warnings.",
    ),
]


Html = Annotated[bool, typer.Option("--html", help="With --doubt: lines of HTML, doubtful words in spans.")]


@dataclass(frozen=True)
class DoubtForm:
    """How doubt is shown."""

    threshold: float
    html: bool = False

    def shown(self, translation: Translation) -> str:
        """The translation in one line, with its doubtful words marked."""
        mark = marked_html if self.html else marked_text
        return one_line(mark(translation.text, translation.words, self.threshold))

    def warn(self, found: Sequence[Translation], numbers: Sequence[int], warn: Callable[[str], None]) -> None:
        for translation, number in zip(found, numbers, strict=True):
            for warning in translation.warnings:
                warn(f"line {number}: {warning.check}: {warning.message}")


def tree(translation: Translation) -> dict[str, Any]:
    """For JSON."""
    from regard.confidence.words import rounded, words_tree

    return {
        "confidence": rounded(translation.confidence),
        "words": words_tree(translation.words),
        "warnings": [warning._asdict() for warning in translation.warnings],
    }


def say_if_generic(translator: LanguageChoice, say: Callable[[str], None]) -> None:
    """Whoever relies on the numbers should know where they come from."""
    found = getattr(translator.translator, "calibrations", None)
    if found is None:  # a chain
        return
    source, target = translator.source, translator.target
    if not any(
        direction.startswith(source) and direction.endswith(target) for direction in found.of if direction or not target
    ):
        which = f" to {target}" if found.of and target else ""
        say(f"{translator.model} has no calibration{which}; confidences are rough (regard calibrate makes one)")
