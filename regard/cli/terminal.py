"""Output to stdout and stderr: escaped text on terminals, aligned tables, JSON."""

from __future__ import annotations

import enum
import sys
from collections.abc import Sequence

from regard.terminal_text import as_json, escape_control_characters, one_line

__all__ = [
    "Engine", "Format", "Precision", "aligned", "as_json", "escape_control_characters", "one_line", "say", "shown",
]  # fmt: skip


def say(message: str) -> None:
    """Prints one line to stderr, with control characters escaped."""
    line = escape_control_characters(one_line(f"regard: {message}"))
    encoding = sys.stderr.encoding or "utf-8"
    print(line.encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr, flush=True)


def shown(text: str) -> str:
    """A result for stdout: unchanged for a pipe or file, escaped for a terminal. Line breaks and tabs are kept."""
    if not sys.stdout.isatty():
        return text
    return "\n".join("\t".join(map(escape_control_characters, line.split("\t"))) for line in text.split("\n"))


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """The rows as lines with aligned columns."""
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


class Engine(enum.StrEnum):
    auto = "auto"
    torch = "torch"
    ctranslate2 = "ctranslate2"
