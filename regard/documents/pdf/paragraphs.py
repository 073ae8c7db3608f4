"""Headings, paragraphs, items of lists, rows of tables and lines of code, put together from lines.

What ends a paragraph: more space than between lines, another size, an indentation, a line that had room for the next
word, a bullet or number. What ends in the middle of a sentence goes on in the next column or on the next page.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from regard.documents.pdf.lines import Line

HEADING = 1.12
"""How much larger than the text a heading is."""
LONGEST_HEADING = 200
SPACED = 1.15
"""A paragraph begins where there is so much more space than between most lines."""
INDENTED = 0.8
"""How far to the right, in letters' heights."""
SHORT = 0.8
"""Of the longest line around: one that is shorter, with the next word, had room for it."""
AROUND = 6
"""Lines before and after."""
CODE = 0.5
"""A document with a larger share of monospaced text is written on a typewriter rather than full of code."""
HYPHENS = "-\u2010\u00ad"
_SENTENCE_END = re.compile(r"[.!?:…。！？؟۔][\"'»”’)\]]*$")
_LEADER = re.compile(r"(?P<title>.*[^\s.])(?:\s*\.){4,}\s*(?P<page>\S{1,8})")
"""A line of a table of contents."""
_WORD = re.compile(r"[^\W\d_]+(?:[-\u2010][^\W\d_]+)*")

Styled = tuple[str, str]
"""A style (`b`, `i`, `bi`, `m` or none), and text."""


@dataclass
class Block:
    kind: str
    """`heading`, `paragraph`, `item`, `row` or `code`, which is a line."""
    level: int = 0
    """Of a heading, from 1."""
    label: str = ""
    """Of an item: its bullet or number."""
    cells: list[list[Styled]] = field(default_factory=lambda: [[]])
    """Of a row; the others have one."""


def blocks_of(lines: Sequence[Line]) -> list[Block]:
    if not lines:
        return []
    page = _Typography(lines)
    groups: list[list[Line]] = []
    for line in lines:
        if groups and page.continues(groups[-1], line):
            groups[-1].append(line)
        else:
            groups.append([line])
    words = Counter(word.lower() for line in lines for word in _WORD.findall(line.text))
    return [page.block(group, words) for group in groups]


class _Typography:
    """What is usual in a document: the size of its text, the distance of its lines, the length of lines around one."""

    def __init__(self, lines: Sequence[Line]):
        sizes: Counter[float] = Counter()
        steps: Counter[float] = Counter()
        for line in lines:
            sizes[line.size] += len(line.text)
        for one, other in zip(lines, lines[1:]):
            if one.size == other.size and one.page == other.page and 0 < one.y - other.y < 3 * one.size:
                steps[round((one.y - other.y) / one.size, 2)] += 1
        self.size = sizes.most_common(1)[0][0]
        self.step = steps.most_common(1)[0][0] if steps else 1.2
        larger = sorted((size for size in sizes if size >= HEADING * self.size), reverse=True)
        self.levels = {size: min(rank, 3) for rank, size in enumerate(larger, 1)}
        self.longest = _longest_around(lines)
        code = sum(len(line.text) for line in lines if _is_code(line))
        self.has_code = code < CODE * sum(len(line.text) for line in lines)

    def is_code(self, line: Line) -> bool:
        return self.has_code and _is_code(line)

    def level(self, line: Line) -> int:
        """Of a heading; 0 for other lines."""
        if len(line.cells) > 1 or len(line.text) > LONGEST_HEADING or not any(map(str.isalpha, line.text)):
            return 0
        if line.size in self.levels:
            return self.levels[line.size]
        bold = all("b" in run.style for run in line.runs) and line.size >= self.size
        short = len(line.text) < SHORT * self.longest[id(line)] and not line.text.endswith((".", ",", ";", ":"))
        return min(len(self.levels) + 1, 3) if bold and short and not line.label else 0

    def continues(self, block: Sequence[Line], line: Line) -> bool:
        last = block[-1]
        if self.is_code(line) or self.is_code(last) or _LEADER.fullmatch(last.text):
            return False
        if line.label and not self.level(line) or len(line.cells) > 1 or len(last.cells) > 1:
            return False
        if self.level(block[0]) != self.level(line) or abs(line.size - last.size) > 0.1 * last.size:
            return False
        open_ended = not _SENTENCE_END.search(last.text)
        if line.page != last.page or line.y > last.y:  # the next column or page
            return open_ended and not self.level(line)
        if (last.y - line.y) / last.size > SPACED * self.step:
            return False
        if self.level(line):
            return True
        indent = (line.x - last.x) / line.size
        if len(block) > 1 and not block[0].label and abs(indent) > INDENTED:
            return False
        if len(block) == 1 and indent > INDENTED and not last.label and not open_ended:
            return False
        if block[0].label and not open_ended and line.x < block[0].x - INDENTED * line.size:
            return False
        first_word = line.text.split(" ", 1)[0]
        return len(last.text) + 1 + len(first_word) >= SHORT * self.longest[id(last)]

    def block(self, lines: Sequence[Line], words: Counter[str]) -> Block:
        if len(lines[0].cells) > 1:
            cells = [_joined([[(run.style, run.text) for run in cell]], words) for cell in lines[0].cells]
            return Block("row", label=lines[0].label, cells=cells)
        if self.is_code(lines[0]):
            return Block("code", cells=[[("m", "".join(run.text for run in lines[0].runs).rstrip())]])
        if leader := _LEADER.fullmatch(lines[-1].text):
            title = " ".join([*(line.text for line in lines[:-1]), leader["title"]])
            return Block("row", label=lines[0].label, cells=[[("", title)], [("", leader["page"])]])
        text = _joined([[(run.style, run.text) for run in line.runs] for line in lines], words)
        if level := self.level(lines[0]):
            label = f"{lines[0].label} " if lines[0].label else ""
            return Block("heading", level, cells=[[("", label + "".join(part for _, part in text))]])
        return Block("item" if lines[0].label else "paragraph", label=lines[0].label, cells=[text])


def _longest_around(lines: Sequence[Line]) -> dict[int, int]:
    """By line: characters of the longest of those before and after in the same column."""
    columns: list[list[Line]] = []
    for line in lines:
        last = columns[-1][-1] if columns else None
        below = last and last.page == line.page and last.size == line.size and line.y < last.y
        if last and below and abs(line.x - last.x) < 8 * line.size and len(line.cells) == len(last.cells):
            columns[-1].append(line)
        else:
            columns.append([line])
    return {
        id(line): max(len(one.text) for one in column[max(0, at - AROUND) : at + AROUND + 1])
        for column in columns
        for at, line in enumerate(column)
    }


def _is_code(line: Line) -> bool:
    return all(run.style == "m" for run in line.runs) and not line.label


def _joined(lines: Iterable[Sequence[Styled]], words: Counter[str]) -> list[Styled]:
    """The text of some lines with single spaces between words; words that a hyphen divides are joined."""
    found: list[Styled] = []
    for line in lines:
        parts = [(style, text) for style, text in line if text]
        if found and parts:
            style, text = found[-1]
            found[-1] = style, _before(text.rstrip(), parts[0][1].lstrip(), words)
        for style, text in parts:
            if found and found[-1][0] == style:
                found[-1] = style, found[-1][1] + text
            else:
                found.append((style, text))
    return _spaced(found)


def _spaced(parts: Iterable[Styled]) -> list[Styled]:
    """With single spaces, none of them where a style or the text begins or ends."""
    found: list[Styled] = []
    for style, text in parts:
        words = " ".join(text.split())
        if not words:
            found += [("", " ")] if found else []
            continue
        pieces = [("", " ")] if found and text[0].isspace() else []
        pieces += [(style, words), *([("", " ")] if text[-1].isspace() else [])]
        for one, piece in pieces:
            if found and piece == " " and found[-1][1].endswith(" "):
                continue
            if found and found[-1][0] == one:
                found[-1] = one, found[-1][1] + piece
            else:
                found.append((one, piece))
    if found and not found[-1][0]:
        found[-1] = "", found[-1][1].rstrip()
    return [part for part in found if part[1]]


def _before(line: str, next_line: str, words: Counter[str]) -> str:
    """A line as it is written before the next one: with a space, or without the hyphen that divides a word."""
    if not line.endswith(tuple(HYPHENS)) or not line[-2:-1].isalpha() or not next_line[:1].islower():
        return line + " "
    first, second = re.split(r"[\s(«\"']", line[:-1])[-1].lower(), re.split(r"[^\w-]", next_line)[0].lower()
    if words[first + second] or not words[f"{first}-{second}"]:
        return line[:-1]
    return line[:-1] + "-"
