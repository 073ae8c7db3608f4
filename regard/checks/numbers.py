"""Numbers of the source text are missing in a translation, or others stand there."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from regard.checks._pair import Pair

_SPACE = "[ \u00a0\u202f\u2009]"
_NUMBER = re.compile(rf"\d+(?:(?:[.,'’:٫٬/-]|{_SPACE}(?=\d{{3}}(?!\d)))\d+)*")
_RUN = re.compile(r"\d+")
SURE = 2
"""Digits from which a number is mostly written in digits."""


def check(pair: Pair) -> Iterator[str]:
    missing = _missing(pair.source, pair.target)
    if not missing:
        return
    added = _missing(pair.target, pair.source)
    if added:
        yield f"{_listed(missing)} of the source is missing; the translation has {_listed(added)}"
    elif sure := [one for one in missing if _is_rarely_a_word(one)]:
        yield f"{_listed(sure)} of the source is missing"


def _is_rarely_a_word(number: str) -> bool:
    """Unlike 12, 100, 3 million or 2:30."""
    return any(len(run.rstrip("0")) > SURE for run in _RUN.findall(number))


def _missing(text: str, other: str) -> list[str]:
    """The numbers of a text that another one has in no form."""
    numbers = [found[0] for found in _NUMBER.finditer(_western(text))]
    if not numbers:
        return []
    there = _western(other)
    runs = set(_RUN.findall(there))
    whole = {re.sub(r"\D", "", found[0]) for found in _NUMBER.finditer(there)}
    known = runs | whole
    return list(dict.fromkeys(one for one in numbers if _digits(one) >= SURE and not _is_known(one, known)))


def _is_known(number: str, known: set[str]) -> bool:
    """Whether it is there with other separators, in parts, as an hour of the other clock, or as '90 for 1990."""
    runs = _RUN.findall(number)
    if "".join(runs) in known or all(_written(run, known) for run in runs):
        return True
    shortened = "".join(runs).rstrip("0")  # 1,500 and 1.5 thousand, 3.000.000 and 3 million
    return bool(shortened) and (shortened in known or any(one.rstrip("0") == shortened for one in known))


def _written(run: str, known: set[str]) -> bool:
    if not run.strip("0") or run in known or run.lstrip("0") in {one.lstrip("0") for one in known}:
        return True
    if len(run) <= 2 and (str(int(run) - 12) in known or str(int(run) + 12) in known):
        return True
    if len(run) == 1:
        return True  # it may be a word
    return any({len(run), len(one)} == {2, 4} and (run.endswith(one) or one.endswith(run)) for one in known)


def _western(text: str) -> str:
    """With 0 to 9 for the digits of all scripts."""
    if text.isascii():
        return text
    return "".join(str(unicodedata.digit(c)) if c.isdecimal() else c for c in text)


def _digits(number: str) -> int:
    return sum(map(str.isdigit, number))


def _listed(numbers: list[str]) -> str:
    return ", ".join(numbers[:3]) + (" ..." if len(numbers) > 3 else "")
