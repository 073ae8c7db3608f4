"""Documents that are an archive of XML: all paragraphs of some members, written back into those that change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from regard.documents.archive import Archive
from regard.documents.document import Document
from regard.documents.xml_tree import Element, parse_xml, serialise_xml


class Paragraph(Protocol):
    """A place of text in a tree."""

    html: str

    def replace(self, translated: str) -> None: ...


def document_of_parts(
    archive: Archive, names: Iterable[str], paragraphs: Callable[[str, Element], Iterable[Paragraph]]
) -> Document:
    """`paragraphs` lists those of a member, given its name and root element."""
    roots: dict[str, Element] = {}
    found: list[tuple[str, Paragraph]] = []
    for name in names:
        root = parse_xml(archive.read(name), f"{name[:100]!r} in the archive")
        here = [(name, paragraph) for paragraph in paragraphs(name, root)]
        if here:
            roots[name] = root
            found += here
    texts = [paragraph.html for _, paragraph in found]

    def write(translations: Sequence[str]) -> bytes:
        changed: set[str] = set()
        for (name, paragraph), text, translation in zip(found, texts, translations, strict=True):
            if translation != text:
                paragraph.replace(translation)
                changed.add(name)
        return archive.rewritten({name: serialise_xml(roots[name]) for name in changed})

    return Document(texts, write, html=True)
