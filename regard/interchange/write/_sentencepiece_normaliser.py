"""Puts our text normalisation into a sentencepiece model, for programs that give it texts as they come.

A sentencepiece file is a protocol buffer: a list of fields, one of which holds the normaliser. Its rules are compiled
by sentencepiece itself, in a model of one sentence that is made for that alone.
"""

from __future__ import annotations

import io
import tempfile
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import sentencepiece

from regard.data.normalise import normalise, plain
from regard.errors import UserError

_NORMALISER = 3
"""The number of the field of a model that holds its normaliser."""
_CHARSMAP, _DUMMY_PREFIX, _REMOVE_SPACES, _ESCAPE_SPACES = 2, 3, 4, 5
"""Fields of the normaliser."""
_BYTES, _NUMBER, _SHORT, _LONG = 2, 0, 5, 1
"""How a field is written."""
_HANGUL = range(0xAC00, 0xD7A4)
_LAST = 0x30000


def with_normaliser(model: bytes, plain_source: bool) -> bytes:
    """The model, which now normalises texts as `normalise` does, and typographic apostrophes if ours does."""
    compiled = _compiled(_rules(plain_source))
    flags = b"".join(_field(number, 1) for number in (_DUMMY_PREFIX, _REMOVE_SPACES, _ESCAPE_SPACES))
    fields = [content for number, content in _fields(model) if number != _NORMALISER]
    return b"".join([*fields, _field(_NORMALISER, _field(_CHARSMAP, compiled) + flags)])


def _rules(plain_source: bool) -> str:
    """Lines "from<tab>to" of code points: single characters that change, and pairs that compose."""
    lines = []
    for code in range(1, _LAST):
        if 0xD800 <= code < 0xE000 or code in _HANGUL:
            continue
        one = chr(code)
        other = normalise(f"x{one}x")[1:-1]  # as inside a text
        other = plain(other) if plain_source else other
        if other != one:
            lines.append(f"{code:X}\t{' '.join(f'{ord(c):X}' for c in other)}")
        parts = unicodedata.normalize("NFD", one)
        if len(parts) > 1 and unicodedata.normalize("NFC", parts) == one:
            lines.append(f"{' '.join(f'{ord(c):X}' for c in parts)}\t{code:X}")
    return "\n".join(lines) + "\n"


def _compiled(rules: str) -> bytes:
    out = io.BytesIO()
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "rules.tsv"
        file.write_text(rules, encoding="utf-8")
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["a b"]),
            model_writer=out,
            vocab_size=10,
            hard_vocab_limit=False,
            normalization_rule_tsv=str(file),
            minloglevel=2,
        )
    normaliser = next(_value(content) for number, content in _fields(out.getvalue()) if number == _NORMALISER)
    return next(_value(content) for number, content in _fields(normaliser) if number == _CHARSMAP)


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a message: the number of each, and all of its bytes."""
    at = 0
    while at < len(message):
        start = at
        tag, at = _number(message, at)
        kind = tag & 7
        if kind == _NUMBER:
            _, at = _number(message, at)
        elif kind == _BYTES:
            length, at = _number(message, at)
            at += length
        elif kind in (_SHORT, _LONG):
            at += 4 if kind == _SHORT else 8
        else:
            at = len(message) + 1
        if at > len(message):
            raise UserError("the tokenizer's sentencepiece model is damaged; take another copy of the model")
        yield tag >> 3, message[start:at]


def _value(field: bytes) -> bytes:
    """The content of a field of bytes."""
    _, at = _number(field, 0)
    length, at = _number(field, at)
    return field[at : at + length]


def _field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return _written(number << 3 | _NUMBER) + _written(value)
    return _written(number << 3 | _BYTES) + _written(len(value)) + value


def _number(message: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits per byte, and where it ends."""
    value = 0
    for shift in range(0, 64, 7):
        byte = message[at] if at < len(message) else 0
        value, at = value | (byte & 0x7F) << shift, at + 1
        if byte < 0x80:
            break
    return value, at


def _written(value: int) -> bytes:
    parts = []
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])
