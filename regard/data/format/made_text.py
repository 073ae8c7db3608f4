"""Synthetic: running text of short sentences in which verbs and pronouns agree with the subject."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from regard.data.format._base import Example, Format
from regard.data.format._made import check_made, random_for

__all__ = ["MadeText"]

NOUNS = ("cat", "dog", "bird", "horse", "king", "fool")
VERBS = ("see", "hear", "follow", "know")
ADJECTIVES = ("old", "small", "sad", "young")


class MadeText(Format):
    """One document of `count` lines per part: a speaker in capitals, then a sentence, as in a play.

    Letters depend on the previous letter, word and line, so that counting letters alone predicts little.
    """

    def __init__(self, count: int = 2000, seed: int = 1) -> None:
        check_made(count, seed)
        self.count, self.seed = count, seed

    def read(self, files: Sequence[Path], part: str) -> list[Example]:
        random = random_for(self.seed, part)
        return [Example("", "".join(self._speech(random) for _ in range(self.count)))]

    def _speech(self, random: np.random.Generator) -> str:
        speaker, noun = _pick(random, NOUNS), _pick(random, NOUNS)
        many = bool(random.integers(2))
        subject = f"the {_pick(random, ADJECTIVES)} {noun}{'s' if many else ''}"
        verb = _pick(random, VERBS) + ("" if many else "s")
        again = _pick(random, VERBS) + ("" if many else "s")
        return f"{speaker.upper()}: {subject} {verb} me, and {'they' if many else 'it'} {again} you.\n"


def _pick(random: np.random.Generator, words: Sequence[str]) -> str:
    return words[int(random.integers(len(words)))]
