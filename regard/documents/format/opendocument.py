"""OpenDocument: text, presentations and spreadsheets differ in nothing that matters here.

The paragraphs of content.xml and, for headers and footers, of styles.xml: also those of tables, frames, notes and
comments. In a spreadsheet only cells that hold text, not those with a number, a date or a formula.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from regard.documents.archive import Archive
from regard.documents.document import Document, InvalidDocument
from regard.documents.format._mixed import MixedContent
from regard.documents.format._parts import document_of_parts
from regard.documents.xml_tree import Element, name_of

TEXT = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"
TABLE = "urn:oasis:names:tc:opendocument:xmlns:table:1.0"
OFFICE = "urn:oasis:names:tc:opendocument:xmlns:office:1.0"
_GROUPS = frozenset({"span", "a", "meta", "ruby", "ruby-base", "content-control"})
_PARTS = re.compile(r"(?:Object [0-9]{1,5}/)?(?:content|styles)\.xml")
"""Also those of charts."""
_MANIFEST = "META-INF/manifest.xml"
_BREAKS = frozenset({"tab", "line-break"})
_VOIDS = re.compile(
    r"note|annotation.*|bookmark.*|reference-mark.*|change.*|soft-page-break|ruby-text|frame|custom-shape|g|line|rect"
    r"|.*-mark(?:-start|-end)?|control|script|toc-mark.*"
)


def read(content: bytes, columns: Sequence[str] = ()) -> Document:
    archive = Archive(content)
    if "content.xml" not in archive:
        raise InvalidDocument("the archive is no OpenDocument file: it has no content.xml")
    if b"manifest:encryption-data" in (archive.read("META-INF/manifest.xml") if _MANIFEST in archive else b""):
        raise InvalidDocument("the document is encrypted; save it without a password")
    return document_of_parts(archive, filter(_PARTS.fullmatch, archive.names), _paragraphs)


def _paragraphs(name: str, root: Element) -> Iterator[MixedContent]:
    for element in list(root.iter(f"{{{TEXT}}}p", f"{{{TEXT}}}h")):
        paragraph = MixedContent(element, _kind)
        if paragraph.html and not _is_kept(element):
            yield paragraph


def _is_kept(paragraph: Element) -> bool:
    """Whether it shows the value of a cell, or was deleted."""
    above = paragraph.getparent()
    if above is not None and name_of(above) == "table-cell":
        kind = above.get(f"{{{OFFICE}}}value-type", "string")
        return kind != "string" or above.get(f"{{{TABLE}}}formula") is not None
    return above is not None and name_of(above) == "deletion"


def _kind(element: Element) -> str:
    name = name_of(element)
    if name == "s":
        count = element.get(f"{{{TEXT}}}c", "1")
        return " " * (min(int(count), 1000) if re.fullmatch("[0-9]{1,4}", count) and int(count) else 1)
    if name in _GROUPS:
        return "group"
    if name.endswith(("-start", "-end")):
        return "range"
    return "break" if name in _BREAKS else "void" if _VOIDS.fullmatch(name) else "atom"
