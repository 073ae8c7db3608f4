"""Parses XML of documents: no document type, hence no entities; bounded nesting and size; nothing is fetched."""

from __future__ import annotations

import re
from typing import Any

from lxml import etree

from regard.documents.document import InvalidDocument
from regard.documents.limits import MAX_DEPTH, MAX_TAGS

Element = Any
"""An lxml element."""

_ENCODING = re.compile(rb"<\?xml[^>]{1,1000}?encoding\s*=\s*['\"]([\w.-]{1,30})")
_ENCODINGS = ("utf-8", "utf8", "us-ascii", "utf-16", "iso-8859-1", "windows-1252")
_INVALID = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot have."""


def parse_xml(content: bytes, what: str) -> Element:
    """The root element. `what` names the file in messages."""
    if content.count(b"<") > MAX_TAGS:
        raise InvalidDocument(f"{what} has more than {MAX_TAGS:,} tags")
    text = _decoded(content, what)
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise InvalidDocument(f"{what} has a document type or entities, which documents of this format do not have")
    parser = etree.XMLParser(
        encoding="utf-8", resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, strip_cdata=False
    )
    try:
        root = etree.fromstring(text.encode(), parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise InvalidDocument(f"{what} is not well-formed XML: {' '.join(str(error).split())[:150]}") from None
    if root.xpath(f"boolean({'/*' * (MAX_DEPTH + 1)})"):
        raise InvalidDocument(f"{what} is nested more than {MAX_DEPTH} deep")
    return root


def _decoded(content: bytes, what: str) -> str:
    """Decoded here, so that the parser cannot see another text than the one that was checked."""
    marked = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    stated = _ENCODING.match(content.removeprefix(b"\xef\xbb\xbf"))
    coding = "utf-16" if marked else stated[1].decode().lower() if stated else "utf-8"
    if coding not in _ENCODINGS:
        raise InvalidDocument(f"{what} is in the encoding {coding}; save it as UTF-8")
    try:
        return content.decode("utf-8-sig" if coding in ("utf-8", "utf8") else coding)
    except UnicodeDecodeError:
        raise InvalidDocument(f"{what} is not valid {coding}") from None


def serialise_xml(root: Element) -> bytes:
    """With what precedes and follows the root element."""
    tree = root.getroottree()
    standalone = tree.docinfo.standalone or None  # lxml says False for what is not stated
    return bytes(etree.tostring(tree, xml_declaration=True, encoding="UTF-8", standalone=standalone))


def valid(text: str) -> str:
    """A text without characters that XML cannot have."""
    return _INVALID.sub("", text)


def name_of(element: Element) -> str:
    """The local name; empty for a comment or processing instruction."""
    return etree.QName(element).localname if isinstance(element.tag, str) else ""


def namespace_of(element: Element) -> str:
    return (etree.QName(element).namespace or "") if isinstance(element.tag, str) else ""
