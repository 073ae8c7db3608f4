"""Words as they are spelled: the number of each character, and a casing feature, beside a word's id.

Shared by the input that writes these numbers (data/input/text.py) and the stem that reads them
(stem/words_and_characters.py).
"""

from __future__ import annotations

import numpy as np

LONGEST = 20
"""Characters of a word that are kept: the first ones."""
CHARACTERS = 97
"""0: none, 1: any other, then ASCII from space to tilde."""
CASINGS = ("lower", "first", "upper", "mixed", "digits", "other")
"""All lowercase letters; a capital first; all capitals; capitals elsewhere; at least half digits; no letters."""
COLUMNS = 2 + LONGEST
"""A token's id, the casing of its word, its word's characters."""


def casing(word: str) -> int:
    digits, letters = sum(map(str.isdigit, word)), sum(map(str.isalpha, word))
    if digits and 2 * digits >= len(word):
        kind = "digits"
    elif not letters:
        kind = "other"
    elif word == word.lower():
        kind = "lower"
    elif letters > 1 and word == word.upper():
        kind = "upper"
    elif word[0].isupper() and word[1:] == word[1:].lower():
        kind = "first"
    else:
        kind = "mixed"
    return CASINGS.index(kind)


def spelled(word: str) -> list[int]:
    """The casing of a word, and its first characters."""
    numbers = [ord(c) - 30 if " " <= c <= "~" else 1 for c in word[:LONGEST]]
    return [casing(word), *numbers, *[0] * (LONGEST - len(numbers))]


def with_spelling(words: list[str], ids: list[list[int]]) -> np.ndarray:
    """A row per token, (S, COLUMNS): a word's tokens all have its spelling."""
    rows = [[id, *of_word] for word, some in zip(words, ids) for of_word in (spelled(word),) for id in some]
    return np.array(rows, dtype=np.int64).reshape(-1, COLUMNS)
