"""Scans an HTML document into text, inline tags and block boundaries, for translation.

A scanner, not a parser: it accepts any malformed text and runs in linear time. Its items cover the whole document, in
order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple


class Item(NamedTuple):
    """A part of a document, by position."""

    kind: str
    """`text`; `open` and `close`, an inline tag; `void`, an empty tag or something invisible; `atom`, an inline
    element that is kept as a whole; `block`, a tag or kept element that ends a sentence."""
    start: int
    end: int
    name: str = ""


_BLOCK_NAMES = """
    address article aside audio base blockquote body br button canvas caption center col colgroup datalist dd details
    dialog dir div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr
    html iframe legend li link main menu meta nav noembed noframes noscript object ol optgroup option p param plaintext
    pre search section select source summary table tbody td template textarea tfoot th thead title tr track ul video xmp
"""
_BLOCKS = frozenset(_BLOCK_NAMES.split())
"""All other elements, also unknown ones, are inline."""
_VOID = frozenset(
    ["area", "base", "br", "col", "embed", "frame", "hr", "img", "input", "link", "meta", "param", "source"]
)
_VOID |= {"track", "wbr"}
_INVISIBLE = frozenset(["script", "style"])
_RAW = _INVISIBLE | {"textarea", "iframe", "xmp", "noembed", "noframes", "plaintext"}
"""Raw text elements: only their own closing tag is a tag."""
_KEPT = frozenset(["code", "pre", "kbd", "samp", "var", "svg", "math"])

# A lookahead does not backtrack, like a possessive group; but those are broken before Python 3.11.5.
_TAG = re.compile(r"""</?([A-Za-z][^\s/>]*+)(?=(?P<rest>(?:[^"'>=]++|=\s*+(?:"[^"]*+"|'[^']*+')?|["'])*))(?P=rest)>""")
_ATTRIBUTE = re.compile(r"""([^\s"'>/=]++)\s*+(?:=\s*+("[^"]*+"|'[^']*+'|[^\s>]*+))?""")
_NUMERIC_SCRIPT = re.compile(
    r"<(su[pb])\b[^<>]{0,200}+>[^<\w]*+(?:<a\b[^<>]{0,300}+>)?([^<]{1,20}+)(?:</a>)?[^<\w]*+</\1>", re.I
)
"""A footnote number, exponent or index; those without letters are kept."""


_CLOSING = re.compile(r"</([A-Za-z][^\s/>]*+)")
_TAG_START = re.compile(r"</?[A-Za-z]")
_ANY_LETTER = re.compile(r"[^\W\d_]")


def scan_html(html: str) -> Iterator[Item]:
    """The items in order; joined, they are the document."""
    scanner = _Scanner(html)
    start = position = 0
    while (position := html.find("<", position)) >= 0:
        found = scanner.at(position)
        if not found:  # a literal "<", as in 2 < 3
            position += 1
            continue
        if position > start:
            yield Item("text", start, position)
        yield found
        start = position = found.end
    if start < len(html):
        yield Item("text", start, len(html))


class _Scanner:
    def __init__(self, html: str):
        self.html = html
        self._last = html.rfind(">")
        self._closed = {found[1].lower(): found.start() for found in _CLOSING.finditer(html)}
        """Position of the last closing tag of each name."""

    def at(self, start: int) -> Item | None:
        """The item that starts with the `<` at this position; None if it is a literal `<`."""
        html = self.html
        if html.startswith("<!--", start):
            end = html.find("-->", start + 4)
            return Item("void", start, end + 3) if end >= 0 else self._rest(start)
        if start > self._last:
            return None
        if html.startswith(("<!", "<?", "</"), start) and not _TAG_START.match(html, start):
            return Item("void", start, html.index(">", start) + 1)
        if not _TAG_START.match(html, start):
            return None
        tag = _TAG.match(html, start)
        if not tag:  # unclosed quotes: browsers show nothing of the rest
            return self._rest(start)
        return self._closing(tag) if html[start + 1] == "/" else self._element(tag)

    def _rest(self, start: int) -> Item:
        """An item that extends to the end of the document."""
        return Item("block", start, len(self.html))

    def _closing(self, tag: re.Match[str]) -> Item:
        name = tag[1].lower()
        return Item("block" if name in _BLOCKS else "void" if name in _VOID else "close", *tag.span(), name)

    def _element(self, tag: re.Match[str]) -> Item:
        """An opening tag, or the whole element if it is kept."""
        name, empty = tag[1].lower(), tag[0].endswith("/>")
        kind = "block" if name in _BLOCKS else "void" if name in _VOID or empty else "open"
        if name in _RAW:
            return self._kept(tag, "void" if name in _INVISIBLE else "block", self._end_of_raw(tag.end(), name))
        if (name in _KEPT or _no_translate(tag[0])) and name not in _VOID:
            whole = "block" if name in _BLOCKS else "atom"
            if empty:
                return Item(whole, *tag.span(), name)
            if self._closed.get(name, -1) > tag.start():
                return self._kept(tag, whole, self._end_of_kept(tag.end(), name))
        if (
            name in ("sub", "sup")
            and (match := _NUMERIC_SCRIPT.match(self.html, tag.start()))
            and not _ANY_LETTER.search(match[2])
        ):
            return Item("atom", *match.span(), name)
        return Item(kind, *tag.span(), name)

    def _kept(self, tag: re.Match[str], kind: str, end: int) -> Item:
        return Item(kind, tag.start(), end, tag[1].lower()) if end >= 0 else self._rest(tag.start())

    def _end_of_raw(self, start: int, name: str) -> int:
        """End of the closing tag of a raw text element; -1 if there is none."""
        if self._closed.get(name, -1) < start:
            return -1
        closing = re.compile(rf"</{name}(?=[\s/>])[^>]*+>", re.IGNORECASE | re.ASCII)
        found = closing.search(self.html, start, self._last + 1)  # not past the last ">", else quadratic
        return found.end() if found else -1

    def _end_of_kept(self, position: int, name: str) -> int:
        """End of the closing tag of an element, skipping nested ones of the same name; -1 if there is none."""
        depth = 1
        while depth:
            position = self.html.find("<", position)
            if not 0 <= position <= self._last:
                return -1
            tag = _TAG.match(self.html, position)
            if tag:
                if tag[1].lower() == name and not tag[0].endswith("/>"):
                    depth += -1 if self.html[position + 1] == "/" else 1
                position = tag.end()
            elif _TAG_START.match(self.html, position):
                return -1
            elif self.html.startswith("<!--", position):
                position = self.html.find("-->", position)
                if position < 0:
                    return -1
            else:
                position += 1
        return position


def _no_translate(tag: str) -> bool:
    """Whether an element is marked as not translatable."""
    if "translate" not in tag.lower():
        return False
    attributes = {name.lower(): value.strip("\"'").lower() for name, value in reversed(_ATTRIBUTE.findall(tag, 1))}
    return attributes.get("translate") == "no" or "notranslate" in attributes.get("class", "").split()
