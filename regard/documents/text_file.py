"""Documents that are text: decoding, and replacing some slices while every other byte stays."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from typing import NamedTuple

from regard.documents.document import Document, InvalidDocument
from regard.documents.limits import MAX_TEXT, MEBIBYTE

_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}


class Encoding(NamedTuple):
    name: str
    mark: bytes = b""
    """The byte order mark that the file begins with."""

    def encode(self, text: str, errors: str = "replace") -> bytes:
        return self.mark + text.encode(self.name, errors)


def decode(content: bytes, encoding: str = "utf-8") -> tuple[str, Encoding]:
    """The text of a file in UTF-8, in what its byte order mark says, or else in `encoding`."""
    if len(content) > MAX_TEXT:
        raise InvalidDocument(f"the text is larger than {MAX_TEXT // MEBIBYTE} MiB")
    found = next((Encoding(name, mark) for mark, name in _MARKS.items() if content.startswith(mark)), None)
    found = found or Encoding(encoding)
    try:
        return content[len(found.mark) :].decode(found.name), found
    except UnicodeDecodeError:
        raise InvalidDocument(f"the text is not {found.name.upper()}; convert it, for example with iconv") from None


class Slice(NamedTuple):
    """A part of a file that is replaced."""

    start: int
    end: int
    text: str
    """What is translated."""
    write: Callable[[str], str]
    """How a translation is written in the file."""
    always: bool = False
    """Whether it is written even if the translation equals the text: its place was empty."""


def sliced_document(source: str, encoding: Encoding, slices: Sequence[Slice], html: bool = False) -> Document:
    """The slices are in order and do not overlap."""

    def write(translations: Sequence[str]) -> bytes:
        parts, done = [], 0
        for one, translation in zip(slices, translations, strict=True):
            if translation != one.text or one.always:
                parts += [source[done : one.start], one.write(translation)]
                done = one.end
        return encoding.encode("".join([*parts, source[done:]]))

    return Document([one.text for one in slices], write, html)
