"""Paragraphs of mixed content (OpenDocument, XLIFF): text between elements, some of which enclose text."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator

from lxml import etree

from regard.documents.inline import Mark, Token, from_html, has_letters, to_html
from regard.documents.xml_tree import Element, name_of, valid

Kind = Callable[[Element], str]
"""What an element is: `group` (around text), `atom`, `void`, `break`, or literally the white space it stands for."""


class MixedContent:
    def __init__(self, element: Element, kind: Kind, target: Element | None = None):
        """`target` is where the translation is written, if not in the element itself."""
        self.element, self.kind, self.target = element, kind, element if target is None else target
        self._base = self._most_frequent_span()
        tokens = list(self._tokens(element))
        self.html = to_html(tokens) if has_letters(tokens) else ""
        """Empty if there is nothing to translate."""

    def _tokens(self, element: Element) -> Iterator[Token]:
        if element.text:
            yield element.text
        for child in element:
            kind = self.kind(child) if isinstance(child.tag, str) else "void"
            if self._base is not None and element is self.element and _looks_like(child, self._base):
                yield child.text or ""
            elif kind == "group":
                yield Mark("open", child)
                yield from self._tokens(child)
                yield Mark("close")
            elif kind.isspace():
                yield kind
            else:
                yield Mark(kind, child)
            if child.tail:
                yield child.tail

    def _most_frequent_span(self) -> Element | None:
        """Where all text is in spans, the one of most text: any new text looks like that, too."""
        lengths: Counter[tuple[str, ...]] = Counter()
        groups: dict[tuple[str, ...], Element] = {}
        bare = self.element.text or ""
        for child in self.element:
            bare += child.tail or ""
            if name_of(child) == "span" and not len(child):
                look = _look(child)
                lengths[look] += len(child.text or "")
                groups.setdefault(look, child)
        return groups[lengths.most_common(1)[0][0]] if lengths and not bare.strip() else None

    def replace(self, translated: str) -> None:
        given = list(self._tokens(self.element))
        tokens = from_html(translated, given)
        for token in given:
            if isinstance(token, Mark) and token.kind == "open":
                _clear(token.value)
        _clear(self.target)
        places = [self.target]
        for token in tokens:
            if isinstance(token, str) and len(places) == 1 and self._base is not None:
                etree.SubElement(places[0], self._base.tag, self._base.attrib).text = valid(token)
            elif isinstance(token, str):
                _append_text(places[-1], valid(token))
            elif token.kind == "close":
                places.pop()
            else:
                token.value.tail = None
                places[-1].append(token.value)
                if token.kind == "open":
                    places.append(token.value)


def _look(group: Element) -> tuple[str, ...]:
    return (group.tag, *(part for attribute in sorted(group.items()) for part in attribute))


def _looks_like(element: Element, group: Element) -> bool:
    return name_of(element) == "span" and not len(element) and _look(element) == _look(group)


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
