"""Message catalogues of gettext (po, pot): messages without a translation get one. All other bytes stay."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from regard.documents.document import Document, InvalidDocument, TranslatedPair, TranslatedPairs
from regard.documents.text_file import Slice, decode, sliced_document

_STRING = r'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*"[ \t]*+'
_FIELD = re.compile(
    r"^(?P<name>msgctxt|msgid_plural|msgid|msgstr(?:\[(?P<number>\d{1,2})\])?)[ \t]*+"
    rf"(?P<value>{_STRING}(?:\r?\n[ \t]*+{_STRING})*)",
    re.MULTILINE,
)
_LANGUAGE = re.compile(r"^Language: *([A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*)", re.MULTILINE)
_QUOTED = re.compile(r'"([^"\\\n]*+(?:\\.[^"\\\n]*+)*)"')
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_ESCAPED = {character: f"\\{letter}" for letter, character in _PLAIN.items()} | {'"': '\\"', "\\": "\\\\"}


class _Field(NamedTuple):
    name: str
    number: int
    text: str
    start: int
    end: int


def read(content: bytes, columns: Sequence[str] = ()) -> Document:
    source, encoding = decode(content)
    slices = [
        Slice(field.start, field.end, text, _written, always=True)
        for text, field in _messages(source)
        if text and not field.text
    ]
    return sliced_document(source, encoding, slices)


def pairs(content: bytes) -> TranslatedPairs:
    """The messages that have a translation, each with its line."""
    source, _ = decode(content)
    found: list[TranslatedPair] = []
    language = ""
    line = done = 0
    for text, field in _messages(source):
        if not text and not found and (stated := _LANGUAGE.search(field.text)):
            language = stated[1]
        elif text and field.text:
            line, done = line + source.count("\n", done, field.start), field.start
            found.append(TranslatedPair(text, field.text, f"line {line + 1}"))
    return TranslatedPairs(found, "", language)


def _messages(source: str) -> Iterator[tuple[str, _Field]]:
    """Each translation with what it translates; that of the header is empty."""
    singular = plural = ""
    known = 0
    for field in _fields(source):
        known += 1
        if field.name in ("msgctxt", "msgid"):
            singular, plural = field.text if field.name == "msgid" else "", ""
        elif field.name == "msgid_plural":
            plural = field.text
        else:
            yield plural if field.number and plural else singular, field
    if source.strip() and not known:
        raise InvalidDocument("the file is no message catalogue: it has no msgid")


def _fields(source: str) -> Iterator[_Field]:
    for found in _FIELD.finditer(source):
        text = "".join(_QUOTED.findall(found["value"]))
        text = _ESCAPE.sub(lambda escape: _PLAIN.get(escape[1], escape[1]), text)
        end = found.start("value") + len(found["value"].rstrip())
        yield _Field(found["name"].partition("[")[0], int(found["number"] or 0), text, found.start("value"), end)


def _written(translation: str) -> str:
    """In one line, or in one for each of the text's lines."""
    lines = translation.splitlines(keepends=True) or [""]
    quoted = ['"' + "".join(_ESCAPED.get(character, character) for character in line) + '"' for line in lines]
    return "\n".join(quoted if len(quoted) == 1 else ['""', *quoted])
