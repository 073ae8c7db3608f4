"""What may be written where a person reads: one line stays one line, and text cannot steer the terminal."""

from __future__ import annotations

import enum
import json
import re
import sys
from collections.abc import Sequence
from typing import Any

from regard.harmless import harmless, one_line

UNSAFE_IN_JSON = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""What JSON leaves as it is although it ends lines, steers terminals or is not valid in UTF-8."""


def say(message: str) -> None:
    """One line on stderr under our name. File names and texts in it may be anybody's, so it is made harmless."""
    line = harmless(one_line(f"regard: {message}"))
    encoding = sys.stderr.encoding or "utf-8"
    print(line.encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr, flush=True)


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """The rows as lines whose columns begin below each other."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths)).rstrip() for row in rows]


class Format(enum.StrEnum):
    text = "text"
    json = "json"


class Precision(enum.StrEnum):
    auto = "auto"
    float32 = "float32"
    bfloat16 = "bfloat16"
    int8 = "int8"


def as_json(value: Any) -> str:
    """One line of JSON without a character that ends lines or steers terminals: those are written as `\\uXXXX`."""
    written = json.dumps(value, ensure_ascii=False)
    return UNSAFE_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", written)
