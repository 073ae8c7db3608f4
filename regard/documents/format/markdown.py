"""Markdown: paragraphs, headings, list items, quotations and cells of tables (_markdown_inline.py has what is in them).

Code, front matter, link definitions and everything that is no paragraph stay byte for byte; a paragraph that changes is
written in one line. HTML in a paragraph of its own is translated as HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from regard.documents.document import Document
from regard.documents.format._markdown_inline import inline_tokens, written
from regard.documents.inline import has_letters, to_html
from regard.documents.text_file import Slice, decode, sliced_document

_FRONT_MATTER = re.compile(r"\A(---|\+\+\+)[ \t]*\r?\n(?:[^\n]*+\n)*?\1[ \t]*+(?:\r?\n|\Z)")
_PREFIX = re.compile(
    r"(?:[ \t]*(?:>|(?P<item>[-*+]|\d{1,9}[.)])(?=[ \t])(?:[ \t]+\[[ xX]\](?=[ \t]))?|\[\^[^\]\s]{1,60}+\]:))*[ \t]*"
)
_FENCE = re.compile(r"(`{3,}|~{3,})")
_HEADING = re.compile(r"#{1,6}(?:[ \t]+|$)")
_UNDERLINE = re.compile(r"(?:=+|-+)[ \t]*$|(?:[-*_][ \t]*){3,}$")
_DEFINITION = re.compile(r"\[(?!\^)([^\]\\]{1,200})\]:[ \t]*\S")
_HTML = re.compile(r"<(?:[A-Za-z][\w-]*[\s/>]|/[A-Za-z]|!--)")
_INLINE_HTML = re.compile(
    r"</?(?:a|abbr|b|bdi|bdo|br|cite|code|del|em|i|img|ins|kbd|mark|q|s|samp|small|span|strong|sub|sup|time|u|var)\b",
    re.I,
)
_DELIMITER_ROW = re.compile(r"\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*\|?$")
_CELL = re.compile(r"(?:[^|\\]++|\\.)+", re.DOTALL)


class _Line(NamedTuple):
    start: int
    """Where its content begins, after markers of quotations and list items."""
    end: int
    content: str
    indent: int
    """Columns before the first character."""
    marked: bool
    """Whether a list item or a footnote begins."""
    depth: int
    """Of quotations."""


def read(content: bytes, columns: Sequence[str] = ()) -> Document:
    source, encoding = decode(content)
    lines = list(_lines(source))
    definitions = frozenset(
        found[1].casefold() for line in lines if (found := _DEFINITION.match(line.content)) is not None
    )
    slices = [
        _html_slice(source, some) if kind == "html" else _slice(source, some, definitions)
        for kind, some in _blocks(source, lines)
    ]
    return sliced_document(source, encoding, [one for one in slices if one], html=True)


def _lines(source: str) -> Iterator[_Line]:
    matter = _FRONT_MATTER.match(source)
    start = matter.end() if matter else 0
    for found in re.compile(r"[^\r\n]*").finditer(source, start):
        if found.start() < start:  # the empty match before a line end
            continue
        line = found[0]
        prefix = _PREFIX.match(line)
        assert prefix
        indent = len(line[: len(line) - len(line.lstrip())].expandtabs(4))
        content = line[prefix.end() :]
        marked = bool(prefix[0].strip(" \t>"))
        yield _Line(found.start() + prefix.end(), found.end(), content.rstrip(), indent, marked, prefix[0].count(">"))
        start = found.end() + (2 if source.startswith("\r\n", found.end()) else 1)


def _blocks(source: str, lines: Sequence[_Line]) -> Iterator[tuple[str, list[_Line]]]:
    """The paragraphs, each with its lines; a cell of a table is one, too."""
    open_lines: list[_Line] = []
    fence, in_list, in_html, table = "", False, False, 0
    for number, line in enumerate(lines):
        text = line.content
        if fence:
            if (found := _FENCE.match(text)) and found[0].startswith(fence) and not text.strip(fence[0]).strip():
                fence = ""
            continue
        if not text:
            yield from _closed(open_lines, in_html)
            open_lines, in_html, table = [], False, 0
            continue
        starts = not open_lines
        if in_html:
            open_lines.append(line)
            continue
        if starts and line.indent >= 4 and not line.marked and not in_list:
            continue  # indented code
        if starts and not line.indent:
            in_list = False
        if found := _FENCE.match(text):
            yield from _closed(open_lines, False)
            open_lines, fence = [], found[0]
        elif _is_table(lines, number) or table:
            yield from _closed(open_lines, False)
            open_lines, table = [], table + 1
            if not _DELIMITER_ROW.match(text):
                yield from (("text", [cell]) for cell in _cells(line))
        elif starts and _HTML.match(text) and not _INLINE_HTML.match(text):
            open_lines, in_html = [line], True
        elif _UNDERLINE.match(text) or (starts and _DEFINITION.match(text)):
            yield from _closed(open_lines, False)
            open_lines = []
        elif heading := _HEADING.match(text):
            yield from _closed(open_lines, False)
            open_lines = []
            words = _without_closing_hashes(text[heading.end() :])
            begin = line.start + heading.end()
            yield "text", [line._replace(start=begin, end=begin + len(words), content=words)]
        else:
            if line.marked or (open_lines and line.depth > open_lines[-1].depth):
                yield from _closed(open_lines, False)
                open_lines, in_list = [], in_list or line.marked
            open_lines.append(line)
    yield from _closed(open_lines, in_html)


def _closed(lines: list[_Line], is_html: bool) -> Iterator[tuple[str, list[_Line]]]:
    if lines:
        yield "html" if is_html else "text", lines


def _is_table(lines: Sequence[_Line], number: int) -> bool:
    """Whether a line is the header of a table: the next one has a dash for each column."""
    after = lines[number + 1].content if number + 1 < len(lines) else ""
    return "|" in lines[number].content and "|" in after and bool(_DELIMITER_ROW.match(after))


def _cells(line: _Line) -> Iterator[_Line]:
    for cell in _CELL.finditer(line.content):
        text = cell[0].strip()
        if text:
            start = line.start + cell.start() + cell[0].index(text)
            yield line._replace(start=start, end=start + len(text), content=text)


def _without_closing_hashes(heading: str) -> str:
    bare = heading.rstrip().rstrip("#")
    return bare.rstrip() if bare.endswith((" ", "\t")) else heading


def _html_slice(source: str, lines: Sequence[_Line]) -> Slice:
    start, end = lines[0].start, lines[-1].end
    return Slice(start, end, source[start:end], str)


def _slice(source: str, lines: Sequence[_Line], definitions: frozenset[str]) -> Slice | None:
    parts: list[str] = []
    for line, after in zip(lines, [*lines[1:], None]):
        raw = source[line.start : line.end]
        hard = raw.endswith(("  ", "\\")) and after is not None
        parts.append((line.content.removesuffix("\\") + "\n" * hard if hard else line.content) + (" " if after else ""))
    text = "".join(part if not part.endswith("\n ") else part[:-1] for part in parts)
    tokens = inline_tokens(text, definitions)
    if not has_letters(tokens):
        return None
    end = lines[-1].start + len(lines[-1].content)
    return Slice(lines[0].start, end, to_html(tokens), partial(written, tokens=tokens))
