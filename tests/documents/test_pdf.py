"""PDF: lines become paragraphs again, and their translation a Word document or Markdown."""

from __future__ import annotations

from pathlib import Path

import pytest
from documents.samples import PDF, members, pdf
from documents.test_formats import upper

from regard.documents.document import InvalidDocument
from regard.documents.formats import read_document
from regard.documents.pdf import extraction
from regard.documents.pdf.paragraphs import Block
from regard.documents.translation import open_document, translate_texts
from regard.errors import UserError


def blocks(*pages) -> list[Block]:
    return extraction._read(pdf(*pages))


def shown(found: list[Block]) -> list[str]:
    kinds = {"heading": "#", "paragraph": "", "item": "-", "row": "|", "code": "`"}
    return [
        kinds[block.kind] * max(1, block.level)
        + block.label
        + "|".join("".join(text for _, text in cell) for cell in block.cells)
        for block in found
    ]


EXPECTED = [
    "#Le grand titre",
    "La bibliothèque fut fondée par un groupe de commerçants qui aimaient beaucoup les livres anciens et les cartes du dix-neuvième siècle.",
    "Un incendie détruisit ensuite la plupart des manuscrits de la ville, dont plusieurs venaient du dix-neuvième siècle.",
    "-•un premier point",
    "-2.un second point",
    "|Année|Livres",
    "|1900|cent",
    "`print(x)",
    "Les habitants reconstruisirent le bâtiment en trois ans avec une structure de métal, que l'on voit encore.",
]


def test_lines_become_paragraphs_without_headers_and_footers() -> None:
    """In a process of its own, as for everybody."""
    found = extraction.extract(PDF)
    assert shown(found) == EXPECTED
    assert found[1].cells[0][1] == ("b", "livres anciens")


def test_two_columns_are_read_one_after_the_other() -> None:
    left = [(50, 700 - 13 * n, 1, 10, text) for n, text in enumerate(["Le chat noir dort sur", "le grand lit de la"])]
    right = [
        (320, 700 - 13 * n, 1, 10, text) for n, text in enumerate(["chambre. Le chien le", "regarde sans bouger."])
    ]
    assert shown(blocks([*left, *right])) == [
        "Le chat noir dort sur le grand lit de la chambre. Le chien le regarde sans bouger."
    ]


def test_a_line_that_had_room_for_the_next_word_ends_a_paragraph() -> None:
    lines = ["Une première ligne qui remplit toute la largeur de", "la page.", "Une autre ligne qui remplit toute la largeur de", "cette page."]  # fmt: skip
    assert shown(blocks(lines)) == [f"{lines[0]} {lines[1]}", f"{lines[2]} {lines[3]}"]


def test_sizes_and_bold_lines_are_headings_of_levels() -> None:
    text = [(72, 600 - 14 * n, 1, 10, f"Le texte de la ligne numéro {n} continue sans fin,") for n in range(4)]
    page = [(72, 700, 1, 20, "Un"), (72, 670, 1, 14, "Deux"), (72, 640, 2, 10, "Trois"), *text]
    assert shown(blocks(page))[:3] == ["#Un", "##Deux", "###Trois"]


def test_table_of_contents_turned_text_and_odd_places() -> None:
    toc = [(72, 700 - 14 * n, 1, 10, f"{title} {'. ' * 20} {n + 3}") for n, title in enumerate(["Le début", "La fin"])]
    assert shown(blocks(toc)) == ["|Le début|3", "|La fin|4"]
    aside = b"BT /F1 10 Tf 0 1 -1 0 20 300 Tm (de travers) Tj ET BT /F1 10 Tf 72 700 Td (tout droit) Tj ET"
    content = b"<</Length %d>>\nstream\n%b\nendstream" % (len(aside), aside)
    assert shown(extraction._read(pdf(["x"], extra={21: content}))) == ["tout droit"]


def test_the_translation_is_a_word_document_or_markdown() -> None:
    made = {}
    for suffix in (".docx", ".md"):
        document = read_document(PDF, "a.pdf", (), suffix)
        made[suffix] = document.write(translate_texts(document, upper))
    word = members(made[".docx"])["word/document.xml"].decode()
    assert '<w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t xml:space="preserve">LE GRAND TITRE' in word
    assert '<w:rPr><w:b/></w:rPr><w:t xml:space="preserve">LIVRES ANCIENS</w:t>' in word
    again = read_document(made[".docx"], "a.docx")
    assert [text for text in again.texts if "LIVRES" in text and "<" not in text] == ["LIVRES"], "a cell of a table"
    assert made[".md"].decode().splitlines() == [
        "# LE GRAND TITRE",
        "",
        EXPECTED[1].upper().replace("LIVRES ANCIENS", "**LIVRES ANCIENS**"),
        "",
        EXPECTED[2].upper(),
        "",
        "- UN PREMIER POINT",
        "2. UN SECOND POINT",
        "",
        "| ANNÉE | LIVRES |",
        "| --- | --- |",
        "| 1900 | CENT |",
        "",
        "```",
        "print(x)",
        "```",
        "",
        EXPECTED[8].upper(),
    ]


def test_text_cannot_become_markup() -> None:
    given = [
        (72, 700, 1, 10, "# Un *mot* et <b>un</b> `autre`"),
        (72, 600, 1, 10, "- [x](y)"),
        (72, 500, 1, 10, "1. <i>"),
    ]
    document = read_document(pdf(given), "a.pdf", (), ".md")
    assert document.write(document.texts).decode().splitlines() == [
        r"\# Un \*mot\* et \<b\>un\</b\> \`autre\`",
        "",
        r"- \[x\](y)",
        r"1. \<i\>",
    ]
    word = read_document(pdf(given), "a.pdf", (), ".docx")
    assert b"&lt;b&gt;un&lt;/b&gt;" in members(word.write(word.texts))["word/document.xml"]


def test_what_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    encrypted = pdf(
        ["x"], trailer=f"/Encrypt<</Filter/Standard/V 1/R 2/O<{'00' * 32}>/U<{'00' * 32}>/P -4>>/ID[<00><00>]"
    )
    for content, says in (
        (encrypted, "the document is encrypted; save it without a password"),
        (pdf([]), "the PDF has no text: its pages are pictures"),
        (b"x", "the file is no PDF"),
        (PDF[:400], "the PDF is damaged: Stream has ended unexpectedly"),
    ):
        with pytest.raises(InvalidDocument, match=says):
            read_document(content, "a.pdf")
    (tmp_path / "a.pdf").write_bytes(PDF)
    with pytest.raises(UserError, match="the translation of a PDF is written as .docx or .md"):
        open_document(tmp_path / "a.pdf", tmp_path / "b.pdf")


def test_fonts_without_characters_are_told() -> None:
    with pytest.raises(InvalidDocument, match="do not say which characters"):
        unknown = b"<</Length 500>>\nstream\n1 begincodespacerange <00> <FF> endcodespacerange 1 beginbfrange <41> <5A> <E041> endbfrange\nendstream"
        font = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/ToUnicode 50 0 R>>"
        extraction._read(pdf(["ABCDEFGH", "1"], extra={3: font, 50: unknown}))
