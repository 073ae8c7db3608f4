"""Detects the language of a text (language_identification.py).

The model assigns probabilities to 176 languages, so a text in none of the server's languages gets low confidence.
"""

from __future__ import annotations

from collections.abc import Iterable

from regard.language_identification import label_of, language_probabilities
from regard.text.untranslatable import has_words, protected_spans

MAX_LANGUAGES = 3
"""Languages returned."""
MAX_CHARACTERS = 2000
"""Characters of a text that are used."""
UNKNOWN = ("en", 0.0)


def detect(text: str, candidates: Iterable[str] = ()) -> list[tuple[str, float]]:
    """Up to three languages with a confidence from 0 to 100, best first; only those in `candidates`, if any."""
    text = _words(text)
    if not text:
        return [UNKNOWN]
    probabilities = language_probabilities(text)
    codes = {code: label_of(code) for code in candidates}
    codes = codes or {code: code for code in probabilities}
    found = [(code, round(100 * probabilities[known], 1)) for code, known in codes.items() if known in probabilities]
    # Of variants that the model does not distinguish, the usual one: pt, not pb.
    ranked = sorted(found, key=lambda language: (-language[1], codes[language[0]] != language[0], language[0]))
    return ranked[:MAX_LANGUAGES] or [UNKNOWN]


def warm() -> None:
    """Loads the model, so that the first request does not wait for it."""
    language_probabilities("Bonjour")


def _words(text: str) -> str:
    """The beginning of a text on one line, without URLs and emoji; empty if it has no words."""
    text = text[:MAX_CHARACTERS].encode("utf-8", "ignore").decode("utf-8")
    parts, start = [], 0
    for span in protected_spans(text):
        parts.append(text[start : span.start])
        start = span.end
    text = " ".join(" ".join([*parts, text[start:]]).splitlines())
    return text if has_words(text, []) else ""
