"""The text normalisation that every tokenizer applies before encoding (but see `as_written`). In this order:

  - lone surrogates become U+FFFD, U+2581 (the mark subword pieces use for a space) becomes "_";
  - control characters (NUL and terminal escapes too), soft hyphens, zero-width spaces and byte order marks are dropped;
  - Unicode's canonical composition, NFC;
  - every run of white space (tabs, no-break and thin spaces, line and paragraph separators) becomes one space, and none
    is left at the ends.
Case, quotes, ligatures, joiners and emoji stay as they are. `normalise(normalise(x)) == normalise(x)`.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Sequence
from itertools import accumulate
from operator import itemgetter

_DROPPED = [*range(0x09), *range(0x0E, 0x1C), *range(0x7F, 0x85), *range(0x86, 0xA0), 0xAD, 0x200B, 0xFEFF]
_REPLACED: dict[int, str | None] = {
    **dict.fromkeys(_DROPPED),
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),
    0x2581: "_",
}
_CONTROLS: dict[int, str | None] = {
    **dict.fromkeys([*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0)]),
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),
}
_APOSTROPHES = str.maketrans(dict.fromkeys("\u2018\u2019\u201b\u02bc\uff07", "'"))
_LONG = 256


def normalise(text: str) -> str:
    """The text as a tokenizer encodes it and as decoding returns it."""
    ordinary = text.isprintable() and "\u2581" not in text  # most lines: the slow steps are skipped
    if not ordinary:
        text = text.translate(_REPLACED)
    if not text.isascii():
        if len(text) > _LONG:
            text = _many_marks().sub(_ordered, text)
        text = unicodedata.normalize("NFC", text)
    if ordinary and "  " not in text and text == text.strip():
        return text
    return " ".join(text.split())


def as_written(text: str) -> str:
    """For texts whose lines and spaces matter: removes only control characters other than `\\n` and tab."""
    return text.translate(_CONTROLS)


def plain(text: str) -> str:
    """Typographic apostrophes become ASCII ones, since people type either."""
    return text if text.isascii() else text.translate(_APOSTROPHES)


def made_plain(texts: Sequence[str], wanted: bool) -> Sequence[str]:
    return [plain(text) for text in texts] if wanted else texts


@functools.cache
def _many_marks() -> re.Pattern[str]:
    # Python orders combining marks by insertion, in quadratic time: a megabyte of them would take minutes. Long runs
    # are put into canonical order first, which does not change the result of NFC.
    # (Beyond the basic plane every character counts as a mark; a list of the few that are would slow the search.)
    marks = "".join(chr(code) for code in range(0x300, 0x10000) if unicodedata.combining(chr(code)))
    return re.compile(f"[{marks}\U00010000-\U0001ffff]{{32,}}")


def _ordered(run: re.Match[str]) -> str:
    apart = run[0].translate({ord(character): unicodedata.normalize("NFD", character) for character in set(run[0])})
    orders = list(map(unicodedata.combining, apart))
    bases = accumulate(order == 0 for order in orders)  # marks move only among those of the same base
    keys = [base << 8 | order for base, order in zip(bases, orders, strict=True)]
    return "".join(character for _, character in sorted(zip(keys, apart, strict=True), key=itemgetter(0)))
