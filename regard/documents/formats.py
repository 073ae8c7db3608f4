"""Which format a document has, by the ending of its name, and reading it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
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
    ".pdf": "pdf",
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
WRITTEN_AS = {".pdf": (".docx", ".md")}
"""Formats that are only read, and the endings of what their translation may be written as, the usual one first."""
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


def written_as(name: str) -> tuple[str, ...]:
    """The endings that the translation of a document of that name may have, the usual one first."""
    return WRITTEN_AS.get(suffix_of(name), (suffix_of(name),))


def read_document(content: bytes, name: str, columns: Sequence[str] = (), suffix: str = "") -> Document:
    """The document in a file of that name. Raises a UserError for anything that is not what its name says.

    `suffix` is the ending of the file to write, one of `written_as`.
    """
    format = check_format(name, columns)
    if len(content) > MAX_BYTES:
        raise InvalidDocument(f"{name} is larger than {MAX_BYTES // MEBIBYTE} MiB")

    def write(translations: Sequence[str]) -> bytes:
        with _named(name):  # a member of an archive that has no text is unpacked only here
            return document.write(translations)

    with _named(name):
        if format == "pdf":
            from regard.documents.format.pdf import read

            document = read(content, columns, suffix or written_as(name)[0])
        else:
            document = _reader(format)(content, columns)
    return replace(document, write=write)


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Begins messages with the name of the document."""
    try:
        yield
    except UserError as error:
        raise InvalidDocument(f"{name}: {error}") from None


def _reader(format: str) -> Callable[[bytes, Sequence[str]], Document]:
    """Imports only what this format needs."""
    match format:
        case "csv":
            from regard.documents.format.csv import read
        case "docx":
            from regard.documents.format.docx import read
        case "epub":
            from regard.documents.format.epub import read
        case "html":
            from regard.documents.format.html import read
        case "json":
            from regard.documents.format.json import read
        case "markdown":
            from regard.documents.format.markdown import read
        case "opendocument":
            from regard.documents.format.opendocument import read
        case "po":
            from regard.documents.format.po import read
        case "pptx":
            from regard.documents.format.pptx import read
        case "subtitles":
            from regard.documents.format.subtitles import read
        case "txt":
            from regard.documents.format.txt import read
        case "xlsx":
            from regard.documents.format.xlsx import read
        case _:
            from regard.documents.format.xliff import read
    return read
