"""The translation is in another language than the one that was asked for."""

from __future__ import annotations

from collections.abc import Iterator

from regard.checks._pair import Pair, is_common
from regard.language_identification import identified, is_another_language, is_identifiable
from regard.languages import name

FEWEST = 4
"""Common words: what has fewer is names, or could be in several languages."""


def check(pair: Pair) -> Iterator[str]:
    asked = pair.target_language
    if not asked or sum(map(is_common, pair.target_words)) < FEWEST or not is_identifiable(asked):
        return
    if is_another_language(pair.target, asked):
        found = identified(pair.target)
        yield f"the translation looks like {name(found) if found else 'no known language'}, not {name(asked)}"
