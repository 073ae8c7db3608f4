"""Electronic books: their pages and the table of contents. Everything but the words stays byte for byte."""

from __future__ import annotations

import re
from collections.abc import Sequence

from regard.documents.archive import Archive
from regard.documents.document import Document, InvalidDocument
from regard.documents.text_file import Encoding, decode

_PAGE = re.compile(r".+\.(?:x?html?)", re.IGNORECASE)
_LABEL = re.compile(r"(?<=<text>)[^<>]+(?=</text>)")
"""An entry of a table of contents (.ncx)."""
_PACKAGE = "META-INF/container.xml"


def read(content: bytes, columns: Sequence[str] = ()) -> Document:
    archive = Archive(content)
    if _PACKAGE not in archive:
        raise InvalidDocument(f"the archive is no electronic book: it has no {_PACKAGE}")
    if "META-INF/encryption.xml" in archive and b"#aes" in archive.read("META-INF/encryption.xml").lower():
        raise InvalidDocument("the book is encrypted; only books without copy protection can be translated")
    pages: list[tuple[str, str, Encoding, list[tuple[int, int]]]] = []
    """Each page, with the slices of it that are translated."""
    for name in archive.names:
        is_page = _PAGE.fullmatch(name)
        if is_page or name.endswith(".ncx"):
            text, encoding = decode(archive.read(name))
            slices = [(0, len(text))] if is_page else [found.span() for found in _LABEL.finditer(text)]
            pages.append((name, text, encoding, slices))
    texts = [text[start:end] for _, text, _, slices in pages for start, end in slices]

    def write(translations: Sequence[str]) -> bytes:
        new = iter(translations)
        changed: dict[str, bytes] = {}
        for name, text, encoding, slices in pages:
            parts, done = [], 0
            for start, end in slices:
                parts += [text[done:start], next(new)]
                done = end
            written = "".join([*parts, text[done:]])
            if written != text:
                changed[name] = encoding.encode(written)
        return archive.rewritten(changed)

    return Document(texts, write, html=True)
