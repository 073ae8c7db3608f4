"""PDF: its text as a new Word document or Markdown. Headings, paragraphs, lists and tables remain, layout does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from regard.documents.document import Document
from regard.documents.inline import Mark, Token, from_html, has_letters, to_html
from regard.documents.pdf.docx_writer import docx_of
from regard.documents.pdf.extraction import extract
from regard.documents.pdf.markdown_writer import markdown_of
from regard.documents.pdf.paragraphs import Block, Styled

WRITERS = {".docx": docx_of, ".md": markdown_of}


def read(content: bytes, columns: Sequence[str] = (), suffix: str = ".docx") -> Document:
    """`suffix` is that of the file to write."""
    blocks = extract(content)
    tokens = [[_tokens(cell) for cell in block.cells] for block in blocks]
    places = [
        (number, cell)
        for number, block in enumerate(blocks)
        for cell in range(len(block.cells))
        if block.kind != "code" and has_letters(tokens[number][cell])
    ]

    def write(translations: Sequence[str]) -> bytes:
        made: list[Block] = [replace(block, cells=list(block.cells)) for block in blocks]
        for (number, cell), translation in zip(places, translations, strict=True):
            made[number].cells[cell] = _styled(from_html(translation, tokens[number][cell]))
        return WRITERS[suffix](made)

    return Document([to_html(tokens[number][cell]) for number, cell in places], write, html=True)


def _tokens(text: Sequence[Styled]) -> list[Token]:
    found: list[Token] = []
    for style, part in text:
        if style == "m":
            found.append(Mark("atom", part))
        else:
            found += [Mark("open", style), part, Mark("close", style)] if style else [part]
    return found


def _styled(tokens: Sequence[Token]) -> list[Styled]:
    found: list[Styled] = []
    styles = [""]
    for token in tokens:
        match token:
            case str():
                found.append((styles[-1], token))
            case Mark("open"):
                styles.append(token.value)
            case Mark("close"):
                styles.pop()
            case _:
                found.append(("m", token.value))
    return found
