"""Which format a document has, by the ending of its name, and reading it."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import PurePath

from regard.documents.document import Document, InvalidDocument
from regard.documents.limits import MAX_BYTES, MEBIBYTE
from regard.errors import UserError

FORMATS = {
    ".csv": "csv",
    ".docx": "docx",
    ".epub": "epub",
    ".htm": "html",
    ".html": "html",
    ".json": "json",
    ".markdown": "markdown",
    ".md": "markdown",
    ".odp": "opendocument",
    ".ods": "opendocument",
    ".odt": "opendocument",
    ".po": "po",
    ".pot": "po",
    ".pptx": "pptx",
    ".srt": "subtitles",
    ".tsv": "csv",
    ".txt": "txt",
    ".vtt": "subtitles",
    ".xhtml": "html",
    ".xlf": "xliff",
    ".xliff": "xliff",
    ".xlsx": "xlsx",
}
"""The file in documents/format/ by the ending of a document's name."""
WITH_COLUMNS = frozenset({"csv", "json"})
"""Formats of which some columns or keys may be chosen."""


def suffix_of(name: str) -> str:
    return PurePath(name).suffix.lower()


def check_format(name: str, columns: Sequence[str] = ()) -> str:
    """The format of a document of that name. Refuses one that is not known, and columns where there are none."""
    suffix = suffix_of(name)
    if suffix not in FORMATS:
        known = " ".join(FORMATS)
        raise UserError(f"{name}: documents of this kind cannot be translated, only {known}")
    if columns and FORMATS[suffix] not in WITH_COLUMNS:
        raise UserError(f"{name}: only tables (.csv, .tsv) and .json have columns or keys to choose")
    return FORMATS[suffix]


def read_document(content: bytes, name: str, columns: Sequence[str] = ()) -> Document:
    """The document in a file of that name. Raises a UserError for anything that is not what its name says."""
    format = check_format(name, columns)
    if len(content) > MAX_BYTES:
        raise InvalidDocument(f"{name} is larger than {MAX_BYTES // MEBIBYTE} MiB")
    read = importlib.import_module(f"regard.documents.format.{format}").read
    try:
        document: Document = read(content, columns)
    except UserError as error:
        raise InvalidDocument(f"{name}: {error}") from None
    return document
