"""Plain text. Lines, indentation, list markers and columns stay."""

from __future__ import annotations

from collections.abc import Sequence

from regard.documents.document import Document
from regard.documents.text_file import decode


def read(content: bytes, columns: Sequence[str] = ()) -> Document:
    text, encoding = decode(content)
    return Document([text], lambda translations: encoding.encode(translations[0]))
