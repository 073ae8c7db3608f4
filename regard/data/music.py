"""Music as text: the pitches of each step from low to high, then a bar: `60 64 67 72 | 59 62 67 74 |`.

Pitches are MIDI numbers; 60 is middle C. A bar alone is a silent step. The words of such a text are pitches and bars,
so any word-level language model can learn it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from regard.data.tokenizer._base import SPACE, SPECIALS, Tokenizer
from regard.errors import UserError

BAR = "|"
PITCHES = 128

Step = tuple[int, ...]
"""The distinct pitches of a step, from low to high."""

_PITCH = re.compile(r"[0-9]{1,3}")


def write_steps(steps: Iterable[Iterable[int]]) -> str:
    return " ".join(" ".join([*map(str, sorted(set(step))), BAR]) for step in steps)


def read_steps(text: str) -> list[Step]:
    """Parses what `write_steps` wrote. An unfinished last step counts; order and repetition within a step do not."""
    *closed, rest = text.split(BAR)
    return [_step(words) for words in (closed if not rest.strip() else [*closed, rest])]


def _step(words: str) -> Step:
    for word in words.split():
        if not is_pitch(word):
            raise UserError(f"'{word[:40]}' is no pitch; music is written as numbers from 0 to 127 and '{BAR}'")
    return tuple(sorted({int(word) for word in words.split()}))


def is_pitch(word: str) -> bool:
    return _PITCH.fullmatch(word) is not None and int(word) < PITCHES


def tidy(text: str) -> str:
    """Checks typed music and separates pitches and bars by spaces; an unfinished step stays unfinished."""
    read_steps(text)
    return " ".join(text.replace(BAR, f" {BAR} ").split())


def bar_of(tokenizer: Tokenizer) -> int | None:
    """The id of the bar if the vocabulary is nothing but pitches and the bar, that is, music; else None."""
    if tokenizer.kind not in ("word", "pitches"):
        return None
    first = len(SPECIALS)
    words = [piece.removeprefix(SPACE) for piece in tokenizer.pieces(range(first, len(tokenizer)))]
    if words.count(BAR) != 1 or not all(word == BAR or is_pitch(word) for word in words):
        return None
    return first + words.index(BAR)
