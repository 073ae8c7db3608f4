"""Detects the language of a text (language_identification.py).

The model assigns probabilities to 176 languages, so a text in none of the server's languages gets low confidence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from regard.language_identification import label_of, language_probabilities
from regard.languages import internal
from regard.text.untranslatable import has_words, protected_spans

MAX_LANGUAGES = 3
"""Languages returned."""
MAX_CHARACTERS = 2000
"""Characters of a text that are used."""
UNKNOWN = ("en", 0.0)
HINT = 4.0
"""How much likelier a language of the user is than it would be otherwise: it decides of a word or two."""
MAX_HINTS = 8
_HINT = re.compile(r"\s*([A-Za-z]{2,3})(?:-[A-Za-z0-9]{1,8})*\s*(?:;\s*q=([01](?:\.[0-9]{0,3})?)\s*)?")


def detect(text: str, candidates: Iterable[str] = (), hints: Iterable[str] = ()) -> list[tuple[str, float]]:
    """Up to three languages with a confidence from 0 to 100, best first; only those in `candidates`, if any.

    `hints` are languages of the user, which are likelier than others.
    """
    text = _words(text)
    if not text:
        return [UNKNOWN]
    probabilities = language_probabilities(text)
    if likelier := {label_of(code) for code in hints}:
        weighted = {code: share * (HINT if code in likelier else 1.0) for code, share in probabilities.items()}
        total = sum(weighted.values())
        probabilities = {code: min(share / total, 1.0) for code, share in weighted.items()} if total else probabilities
    codes = {code: label_of(code) for code in candidates}
    codes = codes or {code: code for code in probabilities}
    found = [(code, round(100 * probabilities[known], 1)) for code, known in codes.items() if known in probabilities]
    # Of variants that the model does not distinguish, the usual one: pt, not pb.
    ranked = sorted(found, key=lambda language: (-language[1], codes[language[0]] != language[0], language[0]))
    return ranked[:MAX_LANGUAGES] or [UNKNOWN]


def hints_of(accept_language: str) -> tuple[str, ...]:
    """The languages of a header Accept-Language; what is malformed or has the weight 0 is none."""
    found = (_HINT.fullmatch(one) for one in accept_language[:500].split(",")[:MAX_HINTS])
    return tuple(internal(one[1].lower()) for one in found if one and float(one[2] or 1) > 0)


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
