"""Writes blocks of text as a new Word document."""

from __future__ import annotations

import io
import unicodedata
import zipfile
from collections.abc import Sequence
from html import escape
from itertools import groupby

from regard.documents.pdf.paragraphs import Block, Styled
from regard.documents.xml_tree import valid

_HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_MAIN = "application/vnd.openxmlformats-officedocument.wordprocessingml"
_STYLES = {"paragraph": "", "item": "ListParagraph", "code": "Code"}
_PROPERTIES = {"b": "<w:b/>", "i": "<w:i/>", "m": '<w:rFonts w:ascii="Courier New" w:hAnsi="Courier New"/>'}
_BORDERS = "".join(
    f'<w:{side} w:val="single" w:sz="4" w:color="999999"/>'
    for side in ("top", "left", "bottom", "right", "insideH", "insideV")
)


def docx_of(blocks: Sequence[Block]) -> bytes:
    body = "".join(_table(some) if count else "".join(map(_paragraph, some)) for count, some in _tables(blocks))
    members = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/word/document.xml" ContentType="{_MAIN}.document.main+xml"/>'
        f'<Override PartName="/word/styles.xml" ContentType="{_MAIN}.styles+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
        f'<Relationship Id="rId1" Type="{_OFFICE}/officeDocument" Target="word/document.xml"/></Relationships>',
        "word/_rels/document.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
        f'<Relationship Id="rId1" Type="{_OFFICE}/styles" Target="styles.xml"/></Relationships>',
        "word/document.xml": f"<w:document {_WORD}><w:body>{body}<w:sectPr/></w:body></w:document>",
        "word/styles.xml": f"<w:styles {_WORD}>{_styles()}</w:styles>",
    }
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), _HEAD + content, zipfile.ZIP_DEFLATED)
    return made.getvalue()


def _tables(blocks: Sequence[Block]) -> list[tuple[int, list[Block]]]:
    """Neighbouring rows with equally many cells, with that number; other blocks with 0."""
    found = [(count, list(some)) for count, some in groupby(blocks, lambda one: len(one.cells))]
    return [(count if count > 1 else 0, some) for count, some in found]


def _paragraph(block: Block) -> str:
    style = f"Heading{block.level}" if block.kind == "heading" else _STYLES[block.kind]
    label = f"<w:r><w:t>{escape(valid(block.label))}</w:t></w:r><w:r><w:tab/></w:r>" if block.label else ""
    return _written(block.cells[0], style, label)


def _table(rows: Sequence[Block]) -> str:
    lines = []
    for row in rows:
        first = [("", f"{row.label} "), *row.cells[0]] if row.label else row.cells[0]
        cells = "".join(f"<w:tc><w:tcPr/>{_written(cell)}</w:tc>" for cell in (first, *row.cells[1:]))
        lines.append(f"<w:tr>{cells}</w:tr>")
    grid = "<w:gridCol/>" * len(rows[0].cells)
    properties = f"<w:tblPr><w:tblBorders>{_BORDERS}</w:tblBorders></w:tblPr>"
    return f"<w:tbl>{properties}<w:tblGrid>{grid}</w:tblGrid>{''.join(lines)}</w:tbl><w:p/>"


def _written(text: Sequence[Styled], style: str = "", before: str = "") -> str:
    rtl = _is_rtl("".join(part for _, part in text))
    properties = (f'<w:pStyle w:val="{style}"/>' if style else "") + ("<w:bidi/>" if rtl else "")
    runs = []
    for flags, part in text:
        wanted = "".join(value for flag, value in _PROPERTIES.items() if flag in flags) + ("<w:rtl/>" if rtl else "")
        run = f"<w:rPr>{wanted}</w:rPr>" if wanted else ""
        runs.append(f'<w:r>{run}<w:t xml:space="preserve">{escape(valid(part), quote=False)}</w:t></w:r>')
    return f"<w:p>{f'<w:pPr>{properties}</w:pPr>' if properties else ''}{before}{''.join(runs)}</w:p>"


def _is_rtl(text: str) -> bool:
    """Whether the first letter is of a script from right to left."""
    kinds = (unicodedata.bidirectional(character) for character in text)
    return next((kind for kind in kinds if kind in ("L", "R", "AL")), "L") != "L"


def _styles() -> str:
    spaced = '<w:spacing w:after="120"/>'
    made = [
        '<w:docDefaults><w:rPrDefault><w:rPr><w:sz w:val="22"/></w:rPr></w:rPrDefault>'
        f"<w:pPrDefault><w:pPr>{spaced}</w:pPr></w:pPrDefault></w:docDefaults>",
        '<w:style w:type="paragraph" w:default="1" w:styleId="Normal"><w:name w:val="Normal"/></w:style>',
    ]
    for level, size in ((1, 36), (2, 28), (3, 24)):  # in half points
        made.append(
            f'<w:style w:type="paragraph" w:styleId="Heading{level}"><w:name w:val="heading {level}"/>'
            f'<w:basedOn w:val="Normal"/><w:pPr><w:keepNext/><w:spacing w:before="240" w:after="120"/>'
            f'<w:outlineLvl w:val="{level - 1}"/></w:pPr><w:rPr><w:b/><w:sz w:val="{size}"/></w:rPr></w:style>'
        )
    made.append(
        '<w:style w:type="paragraph" w:styleId="ListParagraph"><w:name w:val="List Paragraph"/>'
        '<w:basedOn w:val="Normal"/><w:pPr><w:tabs><w:tab w:val="left" w:pos="720"/></w:tabs><w:spacing w:after="60"/>'
        '<w:ind w:left="720" w:hanging="360"/></w:pPr></w:style>'
        '<w:style w:type="paragraph" w:styleId="Code"><w:name w:val="Code"/><w:basedOn w:val="Normal"/>'
        '<w:pPr><w:spacing w:after="0"/></w:pPr><w:rPr><w:sz w:val="20"/></w:rPr></w:style>'
    )
    return "".join(made)
