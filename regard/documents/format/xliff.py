"""XLIFF 1.2 and 2: each segment without a target gets one. Inline elements are kept and follow their words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from regard.documents.document import Document, InvalidDocument, TranslatedPair, TranslatedPairs
from regard.documents.format._mixed import MixedContent, copied
from regard.documents.xml_tree import Element, name_of, namespace_of, parse_xml, serialise_xml

_GROUPS = frozenset({"g", "mrk", "pc", "sub"})
_NAMESPACES = ("urn:oasis:names:tc:xliff:document:", "")


def read(content: bytes, columns: Sequence[str] = ()) -> Document:
    root = parse_xml(content, "the file")
    _check(root)
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


def pairs(content: bytes) -> TranslatedPairs:
    """The segments that have a target. Inline elements are written as tags, so that a lost one is seen."""
    root = parse_xml(content, "the file")
    _check(root)
    found = []
    for source in root.iter("{*}source"):
        unit = source.getparent()
        if unit is None or name_of(unit) not in ("trans-unit", "segment"):
            continue
        target = next((child for child in unit if name_of(child) == "target"), None)
        if target is not None and "".join(target.itertext()).strip():
            found.append(TranslatedPair(_with_tags(source), _with_tags(target), f"line {source.sourceline}"))
    stated = [root, *root.iter("{*}file")]
    source_language, target_language = (
        next((value for one in stated for name in names if (value := one.get(name))), "")
        for names in (("source-language", "srcLang"), ("target-language", "trgLang"))
    )
    return TranslatedPairs(found, source_language, target_language)


def _with_tags(element: Element) -> str:
    parts = [element.text or ""]
    for child in element:
        name = name_of(child)
        tag = f"{name} id={child.get('id', '')}" if name else ""
        if name in _GROUPS:
            parts += [f"<{tag}>", _with_tags(child), f"</{name}>"] if name in ("g", "pc") else [_with_tags(child)]
        elif name:
            parts.append(f"<{tag}/>")
        parts.append(child.tail or "")
    return "".join(parts)


def _check(root: Element) -> None:
    if name_of(root) != "xliff" or not namespace_of(root).startswith(_NAMESPACES):
        raise InvalidDocument("the file is no XLIFF: its root element is not xliff")


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
