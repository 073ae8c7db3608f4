"""Paragraphs of mixed content (OpenDocument, XLIFF): text between elements, some of which enclose text."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

from lxml import etree

from regard.documents.inline import Mark, Token, from_html, has_letters, to_html
from regard.documents.xml_tree import Element, valid

Kind = Callable[[Element], str]
"""What an element is: `group` (around text), `atom`, `void`, `break`, or literally the white space it stands for."""


class MixedContent:
    def __init__(self, element: Element, kind: Kind, target: Element | None = None):
        """`target` is where the translation is written, if not in the element itself."""
        self.element, self.kind, self.target = element, kind, element if target is None else target
        self.tokens = list(self._tokens(element))
        self.translatable = has_letters(self.tokens)

    def _tokens(self, element: Element) -> Iterator[Token]:
        if element.text:
            yield element.text
        for child in element:
            kind = self.kind(child) if isinstance(child.tag, str) else "void"
            if kind == "group":
                yield Mark("open", child)
                yield from self._tokens(child)
                yield Mark("close")
            elif kind.isspace():
                yield kind
            else:
                yield Mark(kind, child)
            if child.tail:
                yield child.tail

    def to_html(self) -> str:
        return to_html(self.tokens)

    def replace(self, translated: str) -> None:
        tokens = from_html(translated, self.tokens)
        for token in self.tokens:
            if isinstance(token, Mark) and token.kind == "open":
                _clear(token.value)
        _clear(self.target)
        places = [self.target]
        for token in tokens:
            if isinstance(token, str):
                _append_text(places[-1], valid(token))
            elif token.kind == "close":
                places.pop()
            else:
                token.value.tail = None
                places[-1].append(token.value)
                if token.kind == "open":
                    places.append(token.value)


def _clear(element: Element) -> None:
    for child in list(element):
        child.tail = None
        element.remove(child)
    element.text = None


def _append_text(place: Element, text: str) -> None:
    if len(place):
        place[-1].tail = (place[-1].tail or "") + text
    else:
        place.text = (place.text or "") + text


def copied(element: Element, tag: str) -> Element:
    """An element of another name with a copy of the content."""
    made = etree.Element(tag, nsmap=element.nsmap)
    made.text = element.text
    made.extend(copy.deepcopy(child) for child in element)
    return made
