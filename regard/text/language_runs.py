"""Which language each sentence of a text is in: a text may quote, answer or go on in another one.

A sentence alone says little if it is short, so its neighbours count: the languages of all sentences together are the
likeliest ones, where every change of language has a price (the Viterbi algorithm).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from regard.language_identification import is_another_language, probabilities_among
from regard.text.sentences import split_text

SWITCH = 1.0
"""Price of a change of language, as a logarithm: both changes around a sentence outweigh odds of 7 to 1."""
ENOUGH_LETTERS = 12
"""A sentence with fewer letters counts in proportion: one word alone does not change the language."""
NEVER_CERTAIN = 0.001
FEW_WORDS = 4
"""With fewer words around a quotation, the quotation counts, too: she said “...”"""
_QUOTED = re.compile(r"«[^«»]{1,200}»|»[^«»]{1,200}«|“[^“”]{1,200}”|„[^„“”]{1,200}[“”]|\"[^\"]{1,200}\"")


class Run(NamedTuple):
    """Sentences of a text in one language, with what lies between and after them."""

    text: str
    language: str
    """Empty if it is clearly in none of the languages in question."""


def language_runs(text: str, languages: Collection[str]) -> list[Run]:
    """The runs of a text; joined, they are the text."""
    pieces = split_text(text)
    found = iter(sentence_languages([piece.text for piece in pieces if piece.translatable], languages))
    marked = _carried([(piece.text, next(found) if piece.translatable else None) for piece in pieces])
    return [Run("".join(part for part, _ in run), language) for language, run in groupby(marked, lambda one: one[1])]


def _carried(pieces: Sequence[tuple[str, str | None]]) -> Iterator[tuple[str, str]]:
    """What is no sentence belongs to the one before, or at the beginning to the first one."""
    last = next((language for _, language in pieces if language is not None), "")
    for text, language in pieces:
        last = last if language is None else language
        yield text, last


def sentence_languages(sentences: Sequence[str], languages: Collection[str]) -> list[str]:
    """The language of each sentence; empty for those clearly in none of these languages."""
    codes = list(languages)
    if len(codes) < 2 or not sentences:
        return [*codes, ""][:1] * len(sentences)
    found = [""] * len(sentences)
    inside = [number for number, one in enumerate(sentences) if not is_another_language(one, *codes)]
    best: dict[str, float] = dict.fromkeys(codes, 0.0)
    before: list[dict[str, str]] = []
    for number in inside:
        likelihoods = _log_likelihoods(sentences[number], codes)
        favourite = max(codes, key=lambda code: best[code])
        before.append({code: code if best[code] >= best[favourite] - SWITCH else favourite for code in codes})
        best = {code: likelihoods[code] + max(best[code], best[favourite] - SWITCH) for code in codes}
    language = max(codes, key=lambda code: best[code])
    for number, came_from in zip(reversed(inside), reversed(before)):
        found[number] = language
        language = came_from[language]
    return found


def main_language(sentences: Sequence[str], languages: Sequence[str]) -> str:
    """The language that most letters are in, of those of the sentences."""
    letters: Counter[str] = Counter()
    for sentence, language in zip(sentences, languages, strict=True):
        letters[language] += len(sentence) if language else 0
    return letters.most_common(1)[0][0] if letters else ""


def _log_likelihoods(sentence: str, codes: Sequence[str]) -> dict[str, float]:
    own = _QUOTED.sub(" ", sentence)  # a quoted title says nothing about the language around it
    text = own if len(own.split()) >= FEW_WORDS else sentence
    letters = [letter for letter in text if letter.isalpha()]
    latin = 2 * sum(letter < "\u0250" for letter in letters) > len(letters)  # another script says more
    share = min(1.0, len(letters) / ENOUGH_LETTERS) if latin else 1.0
    given = probabilities_among(text, codes)
    return {code: share * math.log(max(given.get(code, 0.0), NEVER_CERTAIN)) for code in codes}
