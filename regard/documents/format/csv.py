"""Tables as text (csv, tsv): the chosen columns of every row. All other bytes stay, quotes and line ends too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from regard.documents.document import Document
from regard.documents.text_file import Slice, decode, sliced_document
from regard.errors import UserError

DELIMITERS = ",;\t|"


class Field(NamedTuple):
    start: int
    end: int
    column: int

    def text(self, source: str) -> str:
        raw = source[self.start : self.end]
        return raw[1:-1].replace('""', '"') if raw.startswith('"') and raw.endswith('"') and len(raw) > 1 else raw


def read(content: bytes, columns: Sequence[str] = ()) -> Document:
    source, encoding = decode(content)
    delimiter = _delimiter(source)
    fields = _fields(source, delimiter)
    header: list[str] = []
    first: list[Field] = []
    for field in fields:
        if field.column < len(header):
            first = [field]
            break
        header.append(field.text(source))
    chosen = chosen_columns([name.strip() for name in header], columns)

    def write(translation: str) -> str:
        special = any(character in translation for character in f'{delimiter}"\r\n')
        return '"' + translation.replace('"', '""') + '"' if special else translation

    def slice_of(field: Field) -> Slice:
        quoted = source.startswith('"', field.start)
        return Slice(field.start, field.end, field.text(source), _quoted if quoted else write)

    rows = (field for some in (first, fields) for field in some)
    return sliced_document(source, encoding, [slice_of(field) for field in rows if field.column in chosen])


def chosen_columns(header: Sequence[str], wanted: Sequence[str]) -> set[int]:
    """By name in the first row, or by number, counted from 1."""
    listed = ", ".join(name[:40] for name in header[:20])
    if not wanted:
        raise UserError(
            "name the columns to translate with --columns, separated by commas (over HTTP in the field columns); "
            f"there are: {listed}"
        )
    found: set[int] = set()
    for name in wanted:
        numbers = [number for number, one in enumerate(header) if one == name]
        if not numbers and re.fullmatch("[1-9][0-9]{0,3}", name) and int(name) <= len(header):
            numbers = [int(name) - 1]
        if not numbers:
            raise UserError(f"there is no column '{name[:60]}'; there are: {listed}")
        found.update(numbers)
    return found


def _quoted(translation: str) -> str:
    return '"' + translation.replace('"', '""') + '"'


def _delimiter(source: str) -> str:
    """The one that the first line has most of, outside of quotes."""
    line = re.sub(r'"[^"]*"', "", source.lstrip("\r\n")[:65536]).partition("\n")[0]
    return max(DELIMITERS, key=line.count)


def _fields(source: str, delimiter: str) -> Iterator[Field]:
    """Every field but those of empty lines."""
    end = rf"[{re.escape(delimiter)}\r\n]"
    plain = rf"[^{re.escape(delimiter)}\r\n]*+"
    pattern = re.compile(rf'("[^"]*+(?:""[^"]*+)*"(?={end}|\Z)|{plain})(\r\n|{end}|\Z)')
    position = column = 0
    while position < len(source):
        found = pattern.match(source, position)
        assert found  # any text matches the second alternative
        last = found[2] != delimiter
        if column or found[1] or not last:
            yield Field(*found.span(1), column)
        column = 0 if last else column + 1
        position = found.end()
