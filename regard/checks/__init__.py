"""Signs that a translation is wrong, from the two texts alone: a file per check. Knows no model.

    for finding in findings("Il a 25 ans.", "He is 52.", "en", "fr"):
        print(finding.check, finding.message)

Each check is lenient: on real translations it must hardly ever find something (docs/doubt.md says how often it does).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from regard.checks import copied, glossary, language, length, names, numbers, placeholders, repetition, untranslated
from regard.checks._pair import Pair
from regard.languages import internal

if TYPE_CHECKING:
    from regard.glossary import Glossary

__all__ = ["CHECKS", "Finding", "findings"]


class Finding(NamedTuple):
    """A sign that a translation is wrong."""

    check: str
    message: str


CHECKS: dict[str, Callable[[Pair], Iterator[str]]] = {
    "length": length.check,
    "copied": copied.check,
    "untranslated": untranslated.check,
    "language": language.check,
    "repetition": repetition.check,
    "numbers": numbers.check,
    "names": names.check,
    "placeholders": placeholders.check,
    "glossary": glossary.check,
}
"""By name, in the order in which they are reported."""
OF_WHOLE_TEXT = ("placeholders",)
"""Checks that read placeholders, tags and addresses, too."""
OF_NOTHING = ("length", "placeholders")
"""Checks that an empty translation needs."""


def findings(
    source: str,
    target: str,
    target_language: str = "",
    source_language: str = "",
    glossary: Glossary | None = None,
) -> list[Finding]:
    """What speaks against a translation.

    Args:
        source: The text.
        target: Its translation.
        target_language: Its language, such as "en"; without it, that is not checked.
        source_language: The language of the text; without it, lengths are checked roughly.
        glossary: Terms that must be translated in a certain way.

    Returns:
        The findings, in the order of the checks.
    """
    pair = Pair(source, target, internal(source_language), internal(target_language), glossary)
    if not source.strip():
        return []
    words = replace(
        pair, source=placeholders.without_placeholders(source), target=placeholders.without_placeholders(target)
    )
    chosen = CHECKS if target.strip() else OF_NOTHING
    return [
        Finding(name, message) for name in chosen for message in CHECKS[name](pair if name in OF_WHOLE_TEXT else words)
    ]
