"""A document as what is translated of it, and a way to write it again with translations.

A format (documents/format/, a file each) reads bytes into a `Document`. Its texts are plain, or HTML: formats with
inline formatting write theirs as tags (inline.py), which follow the words that they enclose, as in HTML itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from regard.errors import UserError


@dataclass(frozen=True)
class Document:
    texts: list[str]
    """What is translated, in order."""
    write: Callable[[Sequence[str]], bytes]
    """The document with these texts instead. What is the same as before stays as it was, to the byte where the format
    is text."""
    html: bool = False


class TranslatedPair(NamedTuple):
    """A text of a document and the translation that stands beside it."""

    source: str
    target: str
    where: str
    """Where it is in the file, such as line 12."""


class TranslatedPairs(NamedTuple):
    """What a bilingual file holds, with the languages that it states."""

    pairs: list[TranslatedPair]
    source_language: str = ""
    target_language: str = ""


class InvalidDocument(UserError):
    """A file that is not what its name says, is damaged, or exceeds a limit."""
