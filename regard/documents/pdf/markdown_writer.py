"""Writes blocks of text as Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from regard.documents.pdf.paragraphs import Block, Styled

_SPECIAL = re.compile(r"[\\`*_\[\]<>|$~]|&(?=#?\w+;)")
_START = re.compile(r"(#{1,6}|[-+]|\d{1,9}(?=[.)]))(?=[\s.)])")
_MARKS = {"b": "**", "i": "*", "bi": "***"}


def markdown_of(blocks: Sequence[Block]) -> bytes:
    parts = []
    for (kind, count), some in groupby(blocks, lambda block: (block.kind, len(block.cells))):
        alike = list(some)
        if kind == "row":
            parts.append(_table(alike, count))
        elif kind == "code":
            parts.append(
                "```\n" + "".join(f"{_plain(block.cells[0])}\n" for block in alike).replace("```", "'''") + "```\n"
            )
        elif kind == "item":
            parts.append("".join(f"{_label(block)} {_written(block.cells[0])}\n" for block in alike))
        elif kind == "heading":
            parts += ["#" * block.level + f" {_written(block.cells[0])}\n" for block in alike]
        else:
            parts += [_paragraph(block.cells[0]) + "\n" for block in alike]
    return "\n".join(parts).encode()


def _table(rows: Sequence[Block], count: int) -> str:
    """A table needs a second row; one alone is a line."""
    lines = [[f"{row.label} {_written(row.cells[0])}".strip(), *map(_written, row.cells[1:])] for row in rows]
    if len(lines) == 1:
        return " \\| ".join(lines[0]) + "\n"
    lines.insert(1, ["---"] * count)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _label(block: Block) -> str:
    return (
        block.label if re.fullmatch(r"\d{1,9}[.)]", block.label) else "-" if block.label == "•" else f"- {block.label}"
    )


def _paragraph(text: Sequence[Styled]) -> str:
    """A text that would begin a heading or a list is escaped."""
    written = _written(text)
    start = _START.match(written)
    if not start:
        return written
    return f"{start[0]}\\{written[start.end() :]}" if start[0].isdigit() else f"\\{written}"


def _written(text: Sequence[Styled]) -> str:
    return "".join(
        f"`{part.replace('`', chr(39))}`"
        if style == "m"
        else _MARKS.get(style, "") + _escaped(part) + _MARKS.get(style, "")
        for style, part in text
    )


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda found: "\\" + found[0], text)


def _plain(text: Sequence[Styled]) -> str:
    return "".join(part for _, part in text)
