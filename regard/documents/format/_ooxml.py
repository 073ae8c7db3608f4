"""Paragraphs of Office Open XML (docx, pptx, xlsx): runs of text with the formatting of each.

A paragraph's most frequent formatting is that of its text; runs with another one are marks around theirs. Word splits
runs for reasons of its own (revisions, spelling): neighbours with the same formatting are one.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from lxml import etree

from regard.documents.inline import Mark, Token, from_html, has_letters, to_html
from regard.documents.xml_tree import Element, name_of, namespace_of, valid

SPACE = "{http://www.w3.org/XML/1998/namespace}space"


@dataclass(frozen=True)
class Dialect:
    """How one of the three kinds of paragraphs is written."""

    paragraphs: tuple[str, ...]
    namespaces: tuple[str, ...]
    first: frozenset[str] = frozenset()
    """Children before the text, which stay there."""
    last: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    """Elements around runs: links, insertions."""
    atoms: frozenset[str] = frozenset()
    breaks: frozenset[str] = frozenset()
    dropped: frozenset[str] = frozenset()
    """Traces of layout and spelling, which a new text does not have."""


WORD = Dialect(
    ("p",),
    (
        "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
        "http://purl.oclc.org/ooxml/wordprocessingml/main",
    ),
    first=frozenset({"pPr", "sdtPr", "sdtEndPr", "smartTagPr", "customXmlPr"}),
    groups=frozenset({"hyperlink", "ins", "moveTo", "smartTag", "sdt", "sdtContent", "customXml", "dir", "bdo"}),
    atoms=frozenset({"oMath", "oMathPara", "fldSimple", "sym"}),
    breaks=frozenset({"tab", "br", "cr", "ptab"}),
    dropped=frozenset({"proofErr", "lastRenderedPageBreak", "softHyphen"}),
)
DRAWING = Dialect(
    ("p",),
    ("http://schemas.openxmlformats.org/drawingml/2006/main", "http://purl.oclc.org/ooxml/drawingml/main"),
    first=frozenset({"pPr"}),
    last=frozenset({"endParaRPr"}),
    atoms=frozenset({"fld", "m"}),
    breaks=frozenset({"br"}),
)
SHEET = Dialect(
    ("si", "is", "text"),
    ("http://schemas.openxmlformats.org/spreadsheetml/2006/main", "http://purl.oclc.org/ooxml/spreadsheetml/main"),
    dropped=frozenset({"rPh", "phoneticPr"}),
)
MAX_FIELDS = 10
"""Fields within fields."""
_PROOFING = re.compile(
    rb' (?:lang|altLang|dirty|err|smtClean)="[^"]*"| xmlns:\w+="[^"]*"|<\w+:(?:lang|noProof)\b[^>]*/>'
)
"""Properties of a run that say nothing about its looks."""


class Paragraph:
    """A paragraph as HTML. Its tokens (inline.py) are made anew when it is written: a long document has many."""

    def __init__(self, element: Element, dialect: Dialect):
        self.element, self.dialect = element, dialect
        tokens, _ = self._tokens()
        self.html = to_html(tokens) if has_letters(tokens) else ""
        """Empty if there is nothing to translate."""

    def _tokens(self) -> tuple[list[Token], Element | None]:
        """And the run properties of most of its text."""
        pieces = _with_fields(list(_pieces(self.element, self.dialect)))
        lengths: Counter[bytes] = Counter()
        for piece in pieces:
            if isinstance(piece, _Text):
                lengths[piece.key] += len(piece.text)
        base = lengths.most_common(1)[0][0] if lengths else b""
        texts = (piece for piece in pieces if isinstance(piece, _Text) and piece.key == base)
        return list(_tokens(pieces, base)), next((text.properties for text in texts), None)

    def replace(self, translated: str) -> None:
        """Writes the translation into the paragraph."""
        tokens, base = self._tokens()
        places, formats = [_emptied(self.element, self.dialect)], [base]
        after = [child for child in self.element if name_of(child) in self.dialect.last]
        for token in from_html(translated, tokens):
            if isinstance(token, str):
                _Text(token, b"", formats[-1]).write(places[-1], self.dialect)
            elif token.kind == "open" and isinstance(token.value, _Format):
                places.append(places[-1])
                formats.append(token.value.properties)
            elif token.kind == "open":
                places.append(token.value.write(places[-1], self.dialect))
                formats.append(formats[-1])
            elif token.kind == "close":
                places.pop()
                formats.pop()
                if token.value:
                    token.value.write(places[-1], self.dialect)
            else:
                token.value.write(places[-1], self.dialect)
        self.element.extend(after)  # moves it to the end


def _emptied(element: Element, dialect: Dialect) -> Element:
    """The element with what is not its text only."""
    for child in list(element):
        if name_of(child) not in dialect.first | dialect.last:
            child.tail = None
            element.remove(child)
    element.text = None
    return element


# The pieces of a paragraph. Each can be written again; `write` returns where what it encloses belongs.


@dataclass(frozen=True)
class _Text:
    text: str
    key: bytes
    """Equal for runs that look the same."""
    properties: Element | None

    def write(self, place: Element, dialect: Dialect) -> Element:
        if text := valid(self.text):
            namespace = "{" + namespace_of(place) + "}"
            run = etree.SubElement(place, f"{namespace}r")
            if self.properties is not None:
                run.append(copy.deepcopy(self.properties))
            written = etree.SubElement(run, f"{namespace}t")
            written.text = text
            if dialect is not DRAWING:
                written.set(SPACE, "preserve")
        return place


@dataclass(frozen=True)
class _Format:
    properties: Element | None


@dataclass(frozen=True)
class _Kept:
    element: Element

    def write(self, place: Element, dialect: Dialect) -> Element:
        place.append(self.element)
        return place


@dataclass(frozen=True)
class _InRun:
    """Something in a run that is not text. It gets a run of its own."""

    run: Element
    properties: Element | None
    element: Element

    def write(self, place: Element, dialect: Dialect) -> Element:
        run = etree.SubElement(place, self.run.tag)
        if self.properties is not None:
            run.append(copy.deepcopy(self.properties))
        run.append(self.element)
        return place


@dataclass(frozen=True)
class _Group:
    """An element around runs."""

    element: Element

    def write(self, place: Element, dialect: Dialect) -> Element:
        place.append(_emptied(self.element, dialect))
        return self.element


@dataclass(frozen=True)
class _Sequence:
    """Pieces that stay as they are: a field, or its beginning or end."""

    pieces: Sequence[_Piece]

    def write(self, place: Element, dialect: Dialect) -> Element:
        places = [place]
        for piece in self.pieces:
            if isinstance(piece, Mark) and piece.kind == "close":
                places.pop()
                continue
            inside = (piece.value if isinstance(piece, Mark) else piece).write(places[-1], dialect)
            if isinstance(piece, Mark) and piece.kind == "open":
                places.append(inside)
        return place


_Piece = _Text | Mark


def _pieces(container: Element, dialect: Dialect) -> Iterator[_Piece]:
    for child in container:
        name, own = name_of(child), namespace_of(child) in dialect.namespaces
        if not name or name in dialect.first | dialect.last | dialect.dropped:
            continue
        if name == "r" and own:
            yield from _pieces_of_run(child, dialect)
        elif name == "t" and own:  # of a sheet: text without formatting
            yield from _lines(child.text or "", b"", None)
        elif name in dialect.groups and own:
            yield Mark("open", _Group(child))
            yield from _pieces(child, dialect)
            yield Mark("close")
        else:
            yield Mark(_kind(name, dialect), _Kept(child))


def _pieces_of_run(run: Element, dialect: Dialect) -> Iterator[_Piece]:
    properties = next((child for child in run if name_of(child) == "rPr"), None)
    key = b"" if properties is None else _PROOFING.sub(b"", etree.tostring(properties, with_tail=False))
    key = b"" if re.fullmatch(rb"<\w+:rPr/?>(?:</\w+:rPr>)?", key) else key
    for child in run:
        name = name_of(child)
        if not name or child is properties or name in dialect.dropped:
            continue
        if name == "t" and dialect is SHEET:
            yield from _lines(child.text or "", key, properties)
        elif name == "t":
            yield _Text(child.text or "", key, properties)
        elif name == "noBreakHyphen":
            yield _Text("\u2011", key, properties)
        else:
            yield Mark(_kind(name, dialect), _InRun(run, properties, child))


def _lines(text: str, key: bytes, properties: Element | None) -> Iterator[_Piece]:
    """A line break in a cell is a character of its text."""
    for number, line in enumerate(text.split("\n")):
        if number:
            yield Mark("break", _Text("\n", key, properties))
        if line:
            yield _Text(line, key, properties)


def _kind(name: str, dialect: Dialect) -> str:
    if name in dialect.atoms:
        return "atom"
    return "break" if name in dialect.breaks else "range" if name.endswith(("Start", "End")) else "void"


def _tokens(pieces: Iterable[_Piece], base: bytes) -> Iterator[Token]:
    for key, some in groupby(pieces, lambda piece: piece.key if isinstance(piece, _Text) else None):
        alike = list(some)
        text = "".join(piece.text for piece in alike if isinstance(piece, _Text))
        if key is None:
            yield from (piece for piece in alike if isinstance(piece, Mark))
        elif key == base:
            yield text
        elif text:
            properties = next(piece.properties for piece in alike if isinstance(piece, _Text))
            yield from (Mark("open", _Format(properties)), text, Mark("close"))


# Fields of Word: runs with begin, instruction, separate, visible text and end.


def _with_fields(pieces: Sequence[_Piece]) -> list[_Piece]:
    """Links that are written as fields enclose their text; other fields are kept. One that begins or ends in another
    paragraph ends a sentence, so that its parts stay in order."""
    return list(_fields(pieces, 0, len(pieces), _ends_of_fields(pieces)))


def _fields(pieces: Sequence[_Piece], start: int, stop: int, ends: Mapping[int, int]) -> Iterator[_Piece]:
    while start < stop:
        piece = pieces[start]
        end = ends.get(start, 0)
        if not end:
            yield Mark("break", piece.value) if isinstance(piece, Mark) and _field_part(piece) else piece
            start += 1
            continue
        parts = (n for n in range(start, end) if _field_part(pieces[n]) == "separate")
        separate = next(parts, end)
        if separate < end and _instruction(pieces[start:separate]).startswith("HYPERLINK"):
            yield Mark("open", _Sequence(pieces[start : separate + 1]))
            yield from _fields(pieces, separate + 1, end, ends)
            yield Mark("close", _Sequence(pieces[end : end + 1]))
        else:
            yield Mark("atom", _Sequence(pieces[start : end + 1]))
        start = end + 1


def _ends_of_fields(pieces: Sequence[_Piece]) -> dict[int, int]:
    """The index of each field's end by that of its beginning, if both are in the same element and not too deep."""
    found: dict[int, int] = {}
    opened: list[list[int]] = [[]]
    """The beginnings in each of the elements around."""
    for position, piece in enumerate(pieces):
        part = _field_part(piece)
        if part == "begin":
            opened[-1].append(position)
        elif part == "end" and opened[-1]:
            begin = opened[-1].pop()
            if len(opened[-1]) < MAX_FIELDS:
                found[begin] = position
        elif isinstance(piece, Mark) and piece.kind == "open":
            opened.append([])
        elif isinstance(piece, Mark) and piece.kind == "close":
            opened.pop()
    return found


def _field_part(piece: _Piece) -> str:
    """`begin`, `separate` or `end`; empty for what is no part of a field."""
    if not isinstance(piece, Mark) or not isinstance(piece.value, _InRun) or name_of(piece.value.element) != "fldChar":
        return ""
    return next((value for name, value in piece.value.element.items() if name.endswith("fldCharType")), "")


def _instruction(pieces: Iterable[_Piece]) -> str:
    kept = (piece.value.element for piece in pieces if isinstance(piece, Mark) and isinstance(piece.value, _InRun))
    return "".join(element.text or "" for element in kept if name_of(element) == "instrText").strip()


def paragraphs_of(root: Element, dialect: Dialect) -> Iterator[Paragraph]:
    """The paragraphs with words, in order."""
    tags = [f"{{{namespace}}}{name}" for namespace in dialect.namespaces for name in dialect.paragraphs]
    found = (Paragraph(element, dialect) for element in list(root.iter(*tags)))
    return (paragraph for paragraph in found if paragraph.html)
