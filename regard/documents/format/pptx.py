"""PowerPoint presentations: slides, tables, notes, charts and diagrams. Masters and layouts stay."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from regard.documents.archive import Archive
from regard.documents.document import Document, InvalidDocument
from regard.documents.format._ooxml import DRAWING, Paragraph, paragraphs_of
from regard.documents.format._parts import document_of_parts
from regard.documents.xml_tree import Element

_PARTS = re.compile(r"ppt/(?:slides|notesSlides|charts|diagrams)/[^/]+\.xml")
_NUMBER = re.compile("[0-9]+")


def read(content: bytes, columns: Sequence[str] = ()) -> Document:
    archive = Archive(content)
    names = sorted((name for name in archive.names if _PARTS.fullmatch(name)), key=_order)
    if not names:
        raise InvalidDocument("the archive is no PowerPoint presentation: it has no slides (ppt/slides)")
    return document_of_parts(archive, names, _paragraphs)


def _order(name: str) -> tuple[str, int]:
    number = _NUMBER.search(name)
    return name.rpartition("/")[0], int(number[0][:9]) if number else 0


def _paragraphs(name: str, root: Element) -> Iterator[Paragraph]:
    return paragraphs_of(root, DRAWING)
