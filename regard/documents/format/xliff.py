"""XLIFF 1.2 and 2: each segment without a target gets one. Inline elements are kept and follow their words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from regard.documents.document import Document, InvalidDocument
from regard.documents.format._mixed import MixedContent, copied
from regard.documents.xml_tree import Element, name_of, namespace_of, parse_xml, serialise_xml

_GROUPS = frozenset({"g", "mrk", "pc", "sub"})
_NAMESPACES = ("urn:oasis:names:tc:xliff:document:", "")


def read(content: bytes, columns: Sequence[str] = ()) -> Document:
    root = parse_xml(content, "the file")
    if name_of(root) != "xliff" or not namespace_of(root).startswith(_NAMESPACES):
        raise InvalidDocument("the file is no XLIFF: its root element is not xliff")
    segments = list(_segments(root))

    def write(translations: Sequence[str]) -> bytes:
        for (source, old, segment), translation in zip(segments, translations, strict=True):
            if old is not None:
                source.getparent().remove(old)
            segment.target.tail = source.tail
            source.addnext(segment.target)
            if translation != segment.html:
                segment.replace(translation)
        return serialise_xml(root) if segments else content

    return Document([segment.html for _, _, segment in segments], write, html=True)


def _segments(root: Element) -> Iterator[tuple[Element, Element | None, MixedContent]]:
    """The sources to translate, each with its empty target, if there is one, and with what its target will be."""
    for source in list(root.iter("{*}source")):
        unit = source.getparent()
        if unit is None or name_of(unit) not in ("trans-unit", "segment") or _is_kept(source):
            continue
        old = next((child for child in unit if name_of(child) == "target"), None)
        if old is not None and "".join(old.itertext()).strip():
            continue
        target = copied(source, source.tag.replace("}source", "}target") if "}" in source.tag else "target")
        if old is not None:
            target.attrib.update(old.attrib)
        segment = MixedContent(target, _kind)
        if segment.html:
            yield source, old, segment


def _is_kept(element: Element) -> bool:
    stated = (one.get("translate") for one in (element, *element.iterancestors()))
    return next((value for value in stated if value), "yes") == "no"


def _kind(element: Element) -> str:
    if name_of(element) in _GROUPS:
        return "atom" if element.get("translate") == "no" or element.get("mtype") == "protected" else "group"
    return "atom" if name_of(element) in ("x", "ph") else "void"
