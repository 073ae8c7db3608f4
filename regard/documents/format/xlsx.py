"""Excel workbooks: texts of cells, comments, shapes and charts. Formulas, names of sheets and headers of tables stay.

Formulas refer to the latter two by their text, so they would break. A formula that compares with a text does, too: its
text stays, that of the cell changes.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence

from regard.documents.archive import Archive
from regard.documents.document import Document, InvalidDocument
from regard.documents.format._ooxml import DRAWING, SHEET, Paragraph, paragraphs_of
from regard.documents.format._parts import document_of_parts
from regard.documents.xml_tree import Element, name_of, parse_xml

MAX_HEADERS = 100_000
"""Columns of all tables."""
STRINGS = "xl/sharedStrings.xml"
_DRAWN = re.compile(r"xl/(?:drawings|charts|diagrams|threadedComments)/[^/]+\.xml")
_COMMENTS = re.compile(r"xl/(?:comments\d*|comments/comment\d*)\.xml")
_SHEET = re.compile(r"xl/worksheets/[^/]+\.xml")
_RANGE = re.compile(r"([A-Z]{1,3})([0-9]{1,7})(?::([A-Z]{1,3})[0-9]{1,7})?")
_CELL = re.compile(r"([A-Z]{1,3})([0-9]{1,7})")


def read(content: bytes, columns: Sequence[str] = ()) -> Document:
    archive = Archive(content)
    if "xl/workbook.xml" not in archive:
        raise InvalidDocument("the archive is no Excel workbook: it has no xl/workbook.xml")
    headers = _Headers(archive)
    names = [STRINGS] if STRINGS in archive else []
    for name in archive.names:
        if (
            _DRAWN.fullmatch(name)
            or _COMMENTS.fullmatch(name)
            or _SHEET.fullmatch(name)
            and (name in headers.cells or archive.has(name, b"inlineStr"))
        ):
            names.append(name)
    names.sort(key=lambda name: name == STRINGS)  # last: until then it is not known which ones are headers

    def paragraphs(name: str, root: Element) -> Iterator[Paragraph]:
        if _SHEET.fullmatch(name):
            headers.note(name, root)
        kept = headers.strings if name == STRINGS else headers.inline
        order = {element: number for number, element in enumerate(root)} if name == STRINGS else {}
        for dialect in (SHEET, DRAWING):
            for paragraph in paragraphs_of(root, dialect):
                if order.get(paragraph.element, paragraph.element) not in kept:
                    yield paragraph

    return document_of_parts(archive, names, paragraphs)


class _Headers:
    """The cells that hold the names of tables' columns."""

    def __init__(self, archive: Archive):
        self.cells: dict[str, set[tuple[int, int]]] = {}
        """By sheet: row and column."""
        self.strings: set[object] = set()
        self.inline: set[object] = set()
        self._left = MAX_HEADERS
        for sheet in filter(_SHEET.fullmatch, archive.names):
            relations = f"xl/worksheets/_rels/{sheet.rpartition('/')[2]}.rels"
            if relations not in archive:
                continue
            for relation in parse_xml(archive.read(relations), f"{relations!r} in the archive"):
                target = posixpath.normpath(posixpath.join("xl/worksheets", relation.get("Target", ""))).lstrip("/")
                if relation.get("Type", "").endswith("/table") and target in archive:
                    self._add(sheet, parse_xml(archive.read(target), f"{target[:100]!r} in the archive"))

    def _add(self, sheet: str, table: Element) -> None:
        found = _RANGE.fullmatch(table.get("ref", ""))
        if found and table.get("headerRowCount", "1") != "0":
            columns = range(_column(found[1]), _column(found[3] or found[1]) + 1)
            self._left -= len(columns)
            if self._left < 0:
                raise InvalidDocument(f"the workbook has tables with more than {MAX_HEADERS:,} columns")
            self.cells.setdefault(sheet, set()).update((int(found[2]), column) for column in columns)

    def note(self, name: str, sheet: Element) -> None:
        """Finds their texts, or the numbers of their shared texts, in a sheet."""
        cells = self.cells.get(name, set())
        for cell in sheet.iter("{*}c") if cells else ():
            place = _CELL.fullmatch(cell.get("r", ""))
            if place and (int(place[2]), _column(place[1])) in cells:
                for child in cell:
                    if name_of(child) == "is":
                        self.inline.add(child)
                    elif name_of(child) == "v" and (child.text or "").isdecimal():
                        self.strings.add(int(child.text[:9]))


def _column(letters: str) -> int:
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter) - 64
    return number
