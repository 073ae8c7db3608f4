"""`regard.detect_language`: which language a text is in, as several guesses with their probabilities."""

from __future__ import annotations

from collections.abc import Sequence

from regard.errors import UserError
from regard.language_identification import is_identifiable, language_probabilities, one_line, probabilities_among
from regard.languages import internal
from regard.text.untranslatable import has_words


def detect_language(text: str, languages: Sequence[str] = ()) -> list[tuple[str, float]]:
    """Detects the language of a text.

    Args:
        text: A text; its first 2,000 characters count.
        languages: The languages that come into question; by default all 176.

    Returns:
        Pairs of a language and its probability, the most probable first; none for a text without words.
    """
    codes = check_identifiable(languages)
    if not has_words(text):
        return []
    found = probabilities_among(text, codes) if codes else language_probabilities(one_line(text))
    return sorted(found.items(), key=lambda one: -one[1])


def check_identifiable(languages: Sequence[str]) -> list[str]:
    """Their codes, each once; refuses one that cannot be detected."""
    codes = dict.fromkeys(map(internal, languages))
    if unknown := [code for code in codes if not is_identifiable(code)]:
        raise UserError(f"'{unknown[0]}' is no language that can be detected; use codes such as fr and de")
    return list(codes)
