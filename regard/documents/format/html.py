"""HTML pages. Everything but the words stays byte for byte (text/markup.py)."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence

from regard.documents.document import Document, InvalidDocument
from regard.documents.text_file import decode

_CHARSET = re.compile(
    rb"""<meta[^>]{1,200}?charset\s*=\s*["']?\s*([\w-]{1,30})|<\?xml[^>]{1,100}?encoding=["']([\w-]{1,30})""", re.I
)
_OF_PAGES = re.compile(
    r"ascii|cp125\d|cp874|cp932|cp949|iso8859-\d+|koi8-\w|gb\w+|big5\w*|shift_jis\w*|euc_\w+|mac-roman"
)
_PRESCANNED = 2048
"""Bytes in which a page states its encoding."""


def read(content: bytes, columns: Sequence[str] = ()) -> Document:
    text, encoding = decode(content, _stated_encoding(content))

    def write(translations: Sequence[str]) -> bytes:
        return encoding.encode(translations[0], "xmlcharrefreplace")

    return Document([text], write, html=True)


def _stated_encoding(content: bytes) -> str:
    found = _CHARSET.search(content[:_PRESCANNED])
    name = (found[1] or found[2]).decode() if found else "utf-8"
    name = {"iso-8859-1": "windows-1252", "latin1": "windows-1252"}.get(name.lower(), name)  # as browsers do
    try:
        known = codecs.lookup(name)
    except LookupError:
        raise InvalidDocument(f"the page states the encoding {name}, which is not known") from None
    return known.name if _OF_PAGES.fullmatch(known.name) else "utf-8"  # the others could not have stated themselves
