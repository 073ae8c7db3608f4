"""Where sentences end, in any of the languages at once: rules here, words in _abbreviations.py.

In doubt two sentences stay together: a model translates two better than a half.
"""

from __future__ import annotations

import re

from regard.task import _abbreviations as table

_STOP = re.compile(
    r"""(?<=[.!?…؟۔]) (?: \s[»›](?!\w) | [»›”“’\"')\]«])* \s+ (?=\S)(?![»›](?!\w))   # closing quotes, white space
      | (?<=[。！？])  [」』”’)]* \s* (?=\S)                           # Chinese and Japanese have none""",
    re.VERBOSE,
)
_OPENING = " \u00a0\u202f«»„“”‚‘\"'([¿¡‹›—–-"
_CLOSING = "»›”“’\"')]« \u00a0\u202f"
_LONGEST = 24
"""Characters of the word before a stop that are looked at."""
_ACRONYM = re.compile(r"(?:\w\.)+\w")
_PLURAL = re.compile(r"([A-Z])\1")
"""Half of a Spanish acronym: EE. UU."""
_WORD = re.compile(r"\w+")


def _words(*listed: str) -> frozenset[str]:
    return frozenset(" ".join(listed).split())


_BEFORE_A_NAME = _words(*table.BEFORE_A_NAME.values())
_BEFORE_A_NUMBER = _words(*table.BEFORE_A_NUMBER.values())
_MAY_END = _words(table.MAY_END)
_ORDINAL_NOUNS = _words(table.MONTHS_AND_CENTURIES)
_BEFORE_AN_ORDINAL = _words(table.BEFORE_AN_ORDINAL)
_STARTERS = _words(*table.SENTENCE_STARTERS.values())


def sentences(text: str) -> list[str]:
    """The sentences of a text, without white space between them."""
    found, start, seen = [], 0, 0
    has_word = False
    for stop in _STOP.finditer(text):
        has_word = has_word or any(map(str.isalnum, text[seen : stop.start()]))
        seen = stop.start()
        if has_word and _ends(text, start, stop):
            found.append(text[start : stop.end()].rstrip())
            start, has_word = stop.end(), False
    return [*found, text[start:]]


def _ends(text: str, start: int, stop: re.Match[str]) -> bool:
    """Whether a sentence that began at `start` ends at this stop."""
    after = text[stop.end() : stop.end() + 2 * _LONGEST].lstrip(_OPENING)
    if after[:1].islower():
        return False
    if text[stop.start() - 1] != ".":
        return True
    before = text[max(start, stop.start() - 2 * _LONGEST) : stop.start()].split()
    last = before[-1].lstrip(_OPENING).removesuffix(".") if before else ""
    if not last or last.endswith("."):  # an ellipsis
        return True
    follows = _WORD.match(after)
    next_word = follows[0].lower() if follows else ""
    shouted = after[: len(next_word)].isupper() and (len(next_word) > 1 or after[1:2] == ".")  # an acronym
    begins = next_word in _STARTERS and not shouted
    previous = before[-2] if len(before) > 1 else ""
    word = last.lower()
    if word.isdecimal():
        first = stop.start() - len(last) - 1 <= start
        return not _is_ordinal(word, previous.lower(), next_word, first, begins)
    if word in _BEFORE_A_NAME:
        return False
    if word in _BEFORE_A_NUMBER and next_word[:1].isdecimal():
        return False
    if len(word) == 1 and word.isalpha():  # M. Dupont, J. K. Rowling, z. B. Häuser; but: Better than I. He
        return begins and word != "m" and previous.islower() and not previous.endswith(".")
    if _PLURAL.fullmatch(last) and _PLURAL.match(after) and after[2:3] == ".":
        return False
    if word in _MAY_END or _ACRONYM.fullmatch(last) or _PLURAL.fullmatch(last) and previous.endswith("."):
        return begins
    return True


def _is_ordinal(number: str, previous: str, next_word: str, first: bool, begins: bool) -> bool:
    """Whether the stop after a number belongs to it: 2. Bonjour (a list), am 3. Oktober, der 2. Weltkrieg."""
    if len(number) > 3:
        return False
    declined = previous in _BEFORE_AN_ORDINAL or len(previous) > 3 and previous.endswith(("en", "em"))  # German
    return first or next_word in _ORDINAL_NOUNS or declined and not begins
