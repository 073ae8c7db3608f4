"""An independent reader: LibreOffice shows the words of a translated document, on as many pages."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from documents.test_formats import upper
from pypdf import PdfReader

from regard.documents.formats import read_document
from regard.documents.translation import translate_texts

NAMES = {
    "office": "office",
    "style": "style",
    "text": "text",
    "table": "table",
    "draw": "drawing",
    "presentation": "presentation",
    "meta": "meta",
}
SPACES = " ".join(f'xmlns:{one}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for one, name in NAMES.items())
SPACES += (
    ' xmlns:fo="urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0" xmlns:xlink="http://www.w3.org/1999/xlink"'
)
SPACES += (
    ' xmlns:svg="urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0" xmlns:dc="http://purl.org/dc/elements/1.1/"'
)
SPACES += ' xmlns:of="urn:oasis:names:tc:opendocument:xmlns:of:1.2"'


def flat(kind: str, body: str, automatic: str = "", master: str = "") -> str:
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><office:document {SPACES} office:version="1.3" '
        f'office:mimetype="application/vnd.oasis.opendocument.{kind}"><office:styles/>'
        f"<office:automatic-styles>{automatic}</office:automatic-styles>"
        f"<office:master-styles>{master}</office:master-styles><office:body>{body}</office:body></office:document>"
    )


def style(name: str, family: str, properties: str) -> str:
    return f'<style:style style:name="{name}" style:family="{family}">{properties}</style:style>'


STYLES = (
    style("B", "text", '<style:text-properties fo:font-weight="bold"/>')
    + style("I", "text", '<style:text-properties fo:font-style="italic"/>')
    + style("R", "paragraph", '<style:paragraph-properties style:writing-mode="rl-tb" fo:text-align="end"/>')
    + style("co1", "table-column", '<style:table-column-properties style:column-width="5cm"/>')
    + '<style:page-layout style:name="pm"><style:page-layout-properties fo:page-width="21cm" fo:page-height="29.7cm" '
    'fo:margin="2cm"/><style:header-style/><style:footer-style/></style:page-layout>'
)
MASTER = """<style:master-page style:name="Standard" style:page-layout-name="pm"><style:header><text:p>haut de page</text:p></style:header>
<style:footer><text:p>pied, page <text:page-number/></text:p></style:footer></style:master-page>"""
TEXT = flat(
    "text",
    """<office:text><text:h text:outline-level="1">Le rapport annuel</text:h>
<text:p>Le <text:span text:style-name="B">chat <text:span text:style-name="I">très</text:span> noir</text:span> dort<text:note text:id="n1" text:note-class="footnote"><text:note-citation>1</text:note-citation><text:note-body><text:p>une note de bas de page</text:p></text:note-body></text:note> dans <text:a xlink:href="http://example.org/">la maison</text:a>, à la page <text:page-number>1</text:page-number><office:annotation><dc:creator>a</dc:creator><text:p>un commentaire</text:p></office:annotation>.</text:p>
<text:list><text:list-item><text:p>premier point</text:p><text:list><text:list-item><text:p>un point dessous</text:p></text:list-item></text:list></text:list-item><text:list-item><text:p>second point</text:p></text:list-item></text:list>
<table:table table:name="t"><table:table-column table:number-columns-repeated="2"/><table:table-row><table:table-cell><text:p>le nom</text:p></table:table-cell><table:table-cell><text:p>la <text:span text:style-name="B">valeur</text:span></text:p></table:table-cell></table:table-row><table:table-row><table:table-cell table:number-columns-spanned="2"><text:p>deux colonnes ensemble</text:p></table:table-cell><table:covered-table-cell/></table:table-row></table:table>
<text:p>Av<text:tab/>après<text:line-break/>une autre ligne <text:bookmark-start text:name="m"/>marquée<text:bookmark-end text:name="m"/>.</text:p>
<text:p text:style-name="R">این متن فارسی است</text:p>
<text:p>Une <draw:frame text:anchor-type="as-char" svg:width="5cm" svg:height="1.5cm"><draw:text-box><text:p>boîte de texte</text:p></draw:text-box></draw:frame> ici.</text:p></office:text>""",
    STYLES,
    MASTER,
)
CELL = '<table:table-cell office:value-type="string"><text:p>{}</text:p></table:table-cell>'
SHEET = flat(
    "spreadsheet",
    f"""<office:spreadsheet><table:table table:name="FEUILLE"><table:table-column table:style-name="co1" table:number-columns-repeated="3"/><table:table-row>{CELL.format("le nom")}{CELL.format('un mot <text:span text:style-name="B">gras</text:span>')}</table:table-row>
<table:table-row>{CELL.format("le chat")}<table:table-cell office:value-type="float" office:value="3.5"><text:p>3,5</text:p></table:table-cell><table:table-cell table:formula="of:=[.B2]*2" office:value-type="float" office:value="7"><text:p>7</text:p></table:table-cell></table:table-row>
<table:table-row>{CELL.format("une ligne</text:p><text:p>deux lignes")}<table:table-cell office:value-type="date" office:date-value="2024-03-12"><text:p>12/03/24</text:p></table:table-cell></table:table-row></table:table>
<table:table table:name="AUTRE"><table:table-row>{CELL.format("encore du texte")}</table:table-row></table:table></office:spreadsheet>""",
    STYLES,
)
SHAPE = '<draw:frame svg:width="20cm" svg:height="{}cm" svg:x="2cm" svg:y="{}cm"><draw:text-box>{}</draw:text-box></draw:frame>'
SLIDES = flat(
    "presentation",
    '<office:presentation><draw:page draw:name="p1" draw:master-page-name="Default">'
    + SHAPE.format(2, 1, '<text:p>Le titre <text:span text:style-name="B">important</text:span></text:p>')
    + SHAPE.format(
        6,
        5,
        "<text:list><text:list-item><text:p>premier point</text:p><text:list><text:list-item><text:p>un point dessous</text:p></text:list-item></text:list></text:list-item></text:list><text:p>la fin</text:p>",
    )
    + "</draw:page></office:presentation>",
    STYLES + '<style:page-layout style:name="sl"><style:page-layout-properties fo:page-width="28cm" '
    'fo:page-height="21cm"/></style:page-layout>',
    '<style:master-page style:name="Default" style:page-layout-name="sl"/>',
)


@pytest.fixture(scope="module")
def convert(tmp_path_factory: pytest.TempPathFactory):
    """Has LibreOffice write a file in another format."""
    office = shutil.which("soffice")
    if not office:
        pytest.skip("LibreOffice (soffice) is not installed: no independent reader of office documents")
    profile = tmp_path_factory.mktemp("profile")

    def run(file: Path, kind: str, folder: Path) -> Path:
        words = [office, f"-env:UserInstallation={profile.as_uri()}", "--headless", "--convert-to", kind, "--outdir"]
        done = subprocess.run([*words, str(folder), str(file)], capture_output=True, text=True, timeout=300)
        made = folder / f"{file.stem}.{kind}"
        assert made.exists(), done.stderr
        return made

    return run


def words_and_pages(pdf: bytes) -> tuple[list[str], int]:
    """The words, sorted: the cells of a table may be drawn in any order."""
    pages = PdfReader(io.BytesIO(pdf)).pages
    return sorted(" ".join(page.extract_text() for page in pages).upper().split()), len(pages)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind, given",
    [("docx", TEXT), ("odt", TEXT), ("xlsx", SHEET), ("ods", SHEET), ("pptx", SLIDES), ("odp", SLIDES)],
)
def test_another_program_shows_the_translation(kind: str, given: str, convert, tmp_path: Path) -> None:
    flat_file = tmp_path / f"a.f{ {'docx': 'odt', 'xlsx': 'ods', 'pptx': 'odp'}.get(kind, kind) }"
    flat_file.write_text(given, encoding="utf-8")
    original = convert(flat_file, kind, tmp_path)
    document = read_document(original.read_bytes(), original.name)
    translated = tmp_path / f"b.{kind}"
    translated.write_bytes(document.write(translate_texts(document, upper)))
    before = words_and_pages(convert(original, "pdf", tmp_path).read_bytes())
    shown = convert(translated, "pdf", tmp_path).read_bytes()
    assert words_and_pages(shown) == before and len(before[0]) > 8
    text = " ".join(page.extract_text() for page in PdfReader(io.BytesIO(shown)).pages)
    assert not re.findall(r"(?!\bPage)\b\w*[a-zà-ÿ]\w*", text), "all of it is translated; workbooks number their pages"
