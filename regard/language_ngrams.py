"""Which of a few languages a text is in, by letter n-grams: better than fastText's small model at single words.

A linear model: n-grams of each word, hashed to rows of a table of small integers (language_ngrams.bin, made by
tools/language_ngrams.py; its first line says from what). Needs no NumPy and is read when it is first used.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

FILE = Path(__file__).with_name("language_ngrams.bin")
LONGEST = 5
"""Letters of the longest n-gram."""
MAX_WORDS = 60
"""Words of a text that are looked at."""
_WORD = re.compile(r"[^\W\d_]+")


class Table(NamedTuple):
    languages: tuple[str, ...]
    rows: int
    scale: float
    """What a weight of 1 stands for."""
    weights: bytes
    """Signed bytes, `rows` times one for each language."""


def features(text: str, rows: int) -> Iterator[int]:
    """The rows of a text: every word as a whole, and its n-grams with marks where it begins and ends."""
    for count, found in enumerate(_WORD.finditer(text.lower())):
        if count == MAX_WORDS:
            return
        word = f"<{found[0][:40]}>"
        yield crc32(f"={word}".encode()) % rows
        for size in range(1, LONGEST + 1):
            for start in range(len(word) - size + 1):
                yield crc32(word[start : start + size].encode()) % rows


def ngram_probabilities(text: str) -> dict[str, float]:
    """The probability of each language of the table, if the text is in one of them; empty without words."""
    table = _table()
    found = list(features(text, table.rows))
    if not found:
        return {}
    count = len(table.languages)
    weights = memoryview(table.weights).cast("b")
    factor = table.scale / math.sqrt(len(found))
    sums = [factor * sum(weights[row * count + language] for row in found) for language in range(count)]
    exps = [math.exp(one - max(sums)) for one in sums]
    return {language: one / sum(exps) for language, one in zip(table.languages, exps)}


@cache
def _table() -> Table:
    header, _, weights = FILE.read_bytes().partition(b"\n")
    stated = json.loads(header)
    table = Table(tuple(stated["languages"]), stated["rows"], stated["scale"], weights)
    if len(weights) != table.rows * len(table.languages):
        raise ValueError(f"{FILE} is damaged: it holds {len(weights)} weights")  # part of the package: a bug
    return table
