"""Word documents: body, tables, text boxes, headers, footers, notes, comments, charts and diagrams."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from regard.documents.archive import Archive
from regard.documents.document import Document, InvalidDocument
from regard.documents.format._ooxml import DRAWING, WORD, Paragraph, paragraphs_of
from regard.documents.format._parts import document_of_parts
from regard.documents.xml_tree import Element

_PARTS = re.compile(r"word/[^/]+\.xml|word/(?:charts|diagrams)/[^/]+\.xml")
_WITHOUT_TEXT = re.compile(r"word/(?:styles\w*|settings|webSettings|fontTable|numbering|people)\.xml")


def read(content: bytes, columns: Sequence[str] = ()) -> Document:
    archive = Archive(content)
    names = [name for name in archive.names if _PARTS.fullmatch(name) and not _WITHOUT_TEXT.fullmatch(name)]
    if not names:
        raise InvalidDocument("the archive is no Word document: it has no part with text (word/document.xml)")
    return document_of_parts(archive, names, _paragraphs)


def _paragraphs(name: str, root: Element) -> Iterator[Paragraph]:
    yield from paragraphs_of(root, WORD)
    yield from paragraphs_of(root, DRAWING)
