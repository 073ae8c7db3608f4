"""What an HTML document is made of, as a translator sees it: text, and tags that cut it or stand within a line.

A scanner, no parser: it takes every text for HTML, however malformed, and reads it once. What it finds covers the whole
document, in order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple


class Item(NamedTuple):
    """A part of a document, by its place."""

    kind: str
    """`text`; `open` and `close`, a tag within a line; `void`, one that holds nothing, or what nobody sees; `atom`, an
    element within a line that is kept as a whole; `block`, what ends a sentence: a tag, or an element that is kept."""
    start: int
    end: int
    name: str = ""


_CUTTING = """
    address article aside audio base blockquote body br button canvas caption center col colgroup datalist dd details
    dialog dir div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr
    html iframe legend li link main menu meta nav noembed noframes noscript object ol optgroup option p param plaintext
    pre search section select source summary table tbody td template textarea tfoot th thead title tr track ul video xmp
"""
_BLOCKS = frozenset(_CUTTING.split())
"""All other elements, also those nobody knows, stand within a line."""
_VOID = frozenset(
    ["area", "base", "br", "col", "embed", "frame", "hr", "img", "input", "link", "meta", "param", "source"]
)
_VOID |= {"track", "wbr"}
_UNSEEN = frozenset(["script", "style"])
_RAW = _UNSEEN | {"textarea", "iframe", "xmp", "noembed", "noframes", "plaintext"}
"""Within these nothing is a tag but the one that ends them."""
_KEPT = frozenset(["code", "pre", "kbd", "samp", "var", "svg", "math"])

# A lookahead gives nothing back, as a possessive group would; but those are wrong in Python before 3.11.5.
_TAG = re.compile(r"""</?([A-Za-z][^\s/>]*+)(?=(?P<rest>(?:[^"'>=]++|=\s*+(?:"[^"]*+"|'[^']*+')?|["'])*))(?P=rest)>""")
_ATTRIBUTE = re.compile(r"""([^\s"'>/=]++)\s*+(?:=\s*+("[^"]*+"|'[^']*+'|[^\s>]*+))?""")
_NOTE = re.compile(r"<(su[pb])\b[^<>]{0,200}+>[^<\w]*+(?:<a\b[^<>]{0,300}+>)?([^<]{1,20}+)(?:</a>)?[^<\w]*+</\1>", re.I)
"""A footnote's number, an exponent, an index: those without letters are kept."""


_CLOSING = re.compile(r"</([A-Za-z][^\s/>]*+)")
_LETTER = re.compile(r"</?[A-Za-z]")
_WORDS = re.compile(r"[^\W\d_]")


def scan_html(html: str) -> Iterator[Item]:
    """In order; together they are the document."""
    scanner = _Scanner(html)
    start = place = 0
    while (place := html.find("<", place)) >= 0:
        found = scanner.at(place)
        if not found:  # a sign of the text, as in 2 < 3
            place += 1
            continue
        if place > start:
            yield Item("text", start, place)
        yield found
        start = place = found.end
    if start < len(html):
        yield Item("text", start, len(html))


class _Scanner:
    def __init__(self, html: str):
        self.html = html
        self._last = html.rfind(">")
        self._closed = {found[1].lower(): found.start() for found in _CLOSING.finditer(html)}
        """Where each name is closed for the last time."""

    def at(self, start: int) -> Item | None:
        """What begins with the `<` at a place; None when that is but a sign."""
        html = self.html
        if html.startswith("<!--", start):
            end = html.find("-->", start + 4)
            return Item("void", start, end + 3) if end >= 0 else self._rest(start)
        if start > self._last:
            return None
        if html.startswith(("<!", "<?", "</"), start) and not _LETTER.match(html, start):
            return Item("void", start, html.index(">", start) + 1)
        if not _LETTER.match(html, start):
            return None
        tag = _TAG.match(html, start)
        if not tag:  # its end is within the quotes of an attribute: nobody shows what follows
            return self._rest(start)
        return self._closing(tag) if html[start + 1] == "/" else self._element(tag)

    def _rest(self, start: int) -> Item:
        """What does not end before the document does."""
        return Item("block", start, len(self.html))

    def _closing(self, tag: re.Match[str]) -> Item:
        name = tag[1].lower()
        return Item("block" if name in _BLOCKS else "void" if name in _VOID else "close", *tag.span(), name)

    def _element(self, tag: re.Match[str]) -> Item:
        """A tag that opens an element, or the element as a whole if it is kept."""
        name, empty = tag[1].lower(), tag[0].endswith("/>")
        kind = "block" if name in _BLOCKS else "void" if name in _VOID or empty else "open"
        if name in _RAW:
            return self._kept(tag, "void" if name in _UNSEEN else "block", self._end_of_raw(tag.end(), name))
        if (name in _KEPT or _refuses(tag[0])) and name not in _VOID:
            whole = "block" if name in _BLOCKS else "atom"
            if empty:
                return Item(whole, *tag.span(), name)
            if self._closed.get(name, -1) > tag.start():
                return self._kept(tag, whole, self._end_of_kept(tag.end(), name))
        if name in ("sub", "sup") and (note := _NOTE.match(self.html, tag.start())) and not _WORDS.search(note[2]):
            return Item("atom", *note.span(), name)
        return Item(kind, *tag.span(), name)

    def _kept(self, tag: re.Match[str], kind: str, end: int) -> Item:
        return Item(kind, tag.start(), end, tag[1].lower()) if end >= 0 else self._rest(tag.start())

    def _end_of_raw(self, start: int, name: str) -> int:
        """After the tag that closes an element in which there are no others; -1 without one."""
        if self._closed.get(name, -1) < start:
            return -1
        closing = re.compile(rf"</{name}(?=[\s/>])[^>]*+>", re.IGNORECASE | re.ASCII)
        found = closing.search(self.html, start, self._last + 1)  # not past the last >: each try would read to the end
        return found.end() if found else -1

    def _end_of_kept(self, place: int, name: str) -> int:
        """After the tag that closes an element, past others of the same name within it; -1 without one."""
        depth = 1
        while depth:
            place = self.html.find("<", place)
            if not 0 <= place <= self._last:
                return -1
            tag = _TAG.match(self.html, place)
            if tag:
                if tag[1].lower() == name and not tag[0].endswith("/>"):
                    depth += -1 if self.html[place + 1] == "/" else 1
                place = tag.end()
            elif _LETTER.match(self.html, place):
                return -1
            elif self.html.startswith("<!--", place):
                place = self.html.find("-->", place)
                if place < 0:
                    return -1
            else:
                place += 1
        return place


def _refuses(tag: str) -> bool:
    """Whether an element says that it is not to be translated."""
    if "translate" not in tag.lower():
        return False
    attributes = {name.lower(): value.strip("\"'").lower() for name, value in reversed(_ATTRIBUTE.findall(tag, 1))}
    return attributes.get("translate") == "no" or "notranslate" in attributes.get("class", "").split()
