"""JSON: strings that are values, of all keys or of chosen ones. All other bytes stay, white space too."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence

from regard.documents.document import Document, InvalidDocument
from regard.documents.limits import MAX_DEPTH
from regard.documents.text_file import Slice, decode, sliced_document
from regard.errors import UserError

_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*(?:"|\Z)|[\[\]{},:]', re.DOTALL)


def read(content: bytes, columns: Sequence[str] = ()) -> Document:
    """`columns` are keys, or paths of keys such as menu.title; what is below a chosen key is chosen."""
    source, encoding = decode(content)
    wanted = {tuple(name.split(".")) for name in columns}
    depth = 0
    for token in _TOKEN.finditer(source):  # before the parser recurses
        depth += (token[0] in "[{") - (token[0] in "]}")
        if depth > MAX_DEPTH:
            raise InvalidDocument(f"the JSON is nested more than {MAX_DEPTH} deep")
    try:
        json.loads(source, parse_int=str, parse_float=str)
    except (ValueError, RecursionError) as error:
        raise InvalidDocument(f"the file is not valid JSON: {str(error)[:150]}") from None
    found: list[Slice] = []
    seen: set[tuple[str, ...]] = set()
    for start, end, path in _strings(source):
        text = json.loads(source[start:end])
        if not wanted or _is_chosen(path, wanted, seen):
            found.append(Slice(start, end, text, _writer(source[start:end])))
    if lost := wanted - seen:
        raise UserError(f"there is no text under the key '{'.'.join(min(lost))[:60]}'")
    return sliced_document(source, encoding, found)


def _is_chosen(path: tuple[str, ...], wanted: set[tuple[str, ...]], seen: set[tuple[str, ...]]) -> bool:
    matching = {one for one in wanted for end in range(len(path)) if path[: end + 1][-len(one) :] == one}
    seen |= matching
    return bool(matching)


def _writer(original: str) -> Callable[[str], str]:
    """Characters beyond ASCII are escaped if the original's are."""
    ascii_only = "\\u" in original

    def write(translation: str) -> str:
        return json.dumps(translation, ensure_ascii=ascii_only)

    return write


def _strings(source: str) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Start and end of each string that is a value, with the keys above it. The source is valid."""
    above: list[str | None] = []
    """The key under which each open object or list continues; None in a list."""
    is_key: list[bool] = []
    for token in _TOKEN.finditer(source):
        match token[0]:
            case "{" | "[":
                above.append(None)
                is_key.append(token[0] == "{")
            case "}" | "]":
                above.pop()
                is_key.pop()
            case ":":
                is_key[-1] = False
            case ",":
                is_key[-1] = above[-1] is not None
            case string if is_key and is_key[-1]:
                above[-1] = json.loads(string)
            case _:
                yield token.start(), token.end(), tuple(key for key in above if key is not None)
