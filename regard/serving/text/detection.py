"""Which of a server's languages a text is in (language_identification.py).

The model gives each of 176 languages a probability, so a text in none of those that are asked for gets little for any.
"""

from __future__ import annotations

from collections.abc import Iterable

from regard.language_identification import language_probabilities
from regard.serving.text.untranslatable import has_words, things_in

MOST = 3
"""Languages that are answered with."""
ENOUGH = 2000
"""Characters of a text that are looked at."""
UNKNOWN = ("en", 0.0)

_KNOWN_AS = {"nb": "no", "pb": "pt", "zt": "zh", "iw": "he", "fil": "tl"}
"""Codes that the model has other ones for."""


def detect(text: str, among: Iterable[str] = ()) -> list[tuple[str, float]]:
    """Up to three languages, of those `among` if any are named, each with a confidence of 0 to 100; best first."""
    text = _words(text)
    if not text:
        return [UNKNOWN]
    shares = language_probabilities(text)
    codes = {code: _KNOWN_AS.get(code, code.split("-")[0]) for code in among} or {code: code for code in shares}
    found = [(code, round(100 * shares[known], 1)) for code, known in codes.items() if known in shares]
    return sorted(found, key=lambda language: -language[1])[:MOST] or [UNKNOWN]


def warm() -> None:
    """Reads the model, so that the first text need not wait for it."""
    language_probabilities("Bonjour")


def _words(text: str) -> str:
    """The beginning of a text on one line, without addresses and emoji; nothing if it has no words."""
    text = text[:ENOUGH].encode("utf-8", "ignore").decode("utf-8")
    parts, start = [], 0
    for thing in things_in(text):
        parts.append(text[start : thing.start])
        start = thing.end
    text = " ".join(" ".join([*parts, text[start:]]).splitlines())
    return text if has_words(text, []) else ""
