"""The rules of decoding/rules.py (`Forbid`, `NoLoops`), checked afterwards on lists of ids.

CTranslate2 cannot apply them during its search, but it can forbid a sequence of tokens. So what an output must not have
is forbidden and the sentence searched again, until its output has none.
"""

from __future__ import annotations

from collections.abc import Sequence

from regard.special_tokens import BEGIN, PAD, UNKNOWN

LONGEST = 8
"""Tokens of the longest n-gram that counts as a loop."""
AT_LEAST = 3
"""Repeats in a row that are always allowed."""


def first_forbidden(ids: Sequence[int], source: Sequence[int]) -> list[int] | None:
    """A sequence in an output that our rules forbid: a special token, or a loop that its source does not have."""
    for special in (PAD, UNKNOWN, BEGIN):
        if special in ids:
            return [special]
    loop = find_loop(ids, AT_LEAST)
    if loop is None or (allowed := loops_allowed(source)) == AT_LEAST:
        return loop
    return find_loop(ids, allowed)


def find_loop(ids: Sequence[int], allowed: int) -> list[int] | None:
    """The first n-gram that is repeated more than `allowed` times in a row, with all its repeats."""
    if len(ids) - len(set(ids)) < allowed:  # some token would occur `allowed` times more than once
        return None
    for length in range(1, LONGEST + 1):
        run = 0
        for at in range(length, len(ids)):
            run = run + 1 if ids[at] == ids[at - length] else 0
            if run == allowed * length:
                return list(ids[at + 1 - (allowed + 1) * length : at + 1])
    return None


def loops_allowed(source: Sequence[int]) -> int:
    """How often an output may repeat an n-gram in a row: as often as its source does, but at least AT_LEAST times."""
    most = AT_LEAST
    for length in range(1, LONGEST + 1):
        run = 0
        for at in range(length, len(source)):
            run = run + 1 if source[at] == source[at - length] else 0
            most = max(most, run // length + 1)
    return most
