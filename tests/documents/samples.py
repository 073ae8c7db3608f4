"""A small document of each format with everything in it that a translation must leave alone."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Mapping, Sequence

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
S = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
P = 'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
M = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'


def archive(members: Mapping[str, str | bytes], stored: tuple[str, ...] = ()) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as target:
        for name, content in members.items():
            target.writestr(name, content, zipfile.ZIP_STORED if name in stored else None)
    return made.getvalue()


def members(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as source:
        return {name: source.read(name) for name in source.namelist()}


def run(text: str, properties: str = "") -> str:
    return f'<w:r>{properties and f"<w:rPr>{properties}</w:rPr>"}<w:t xml:space="preserve">{text}</w:t></w:r>'


def field(kind: str) -> str:
    return f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>'


BODY = f"""<w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr>{run("Le rapport")}</w:p>
<w:p>{run("Le ")}<w:proofErr w:type="spellStart"/>{run("chat", "<w:b/>")}{run(" noir", '<w:b/><w:lang w:val="fr-FR"/>')}{run(" dort.")}
<w:commentRangeStart w:id="0"/>{run(" Il rêve")}<w:commentRangeEnd w:id="0"/><w:r><w:commentReference w:id="0"/></w:r>{run(" encore")}<w:r><w:footnoteReference w:id="2"/></w:r>{run(".")}</w:p>
<w:p>{run("Voir ")}<w:hyperlink w:anchor="x">{run("cette page", '<w:u w:val="single"/>')}</w:hyperlink>{run(" ou ")}{field("begin")}<w:r><w:instrText> HYPERLINK "http://x.org" </w:instrText></w:r>{field("separate")}{run("ce lien", '<w:color w:val="0000FF"/>')}{field("end")}{run(", page ")}{field("begin")}<w:r><w:instrText> PAGE </w:instrText></w:r>{field("separate")}{run("3")}{field("end")}{run(".")}</w:p>
<w:p>{field("begin")}<w:r><w:instrText> TOC </w:instrText></w:r>{field("separate")}{run("Table des matières")}<w:r><w:tab/></w:r>{run("1")}</w:p><w:p>{run("fin de la table")}{field("end")}</w:p>
<w:tbl><w:tr><w:tc><w:p>{run("Nom du chat")}</w:p></w:tc><w:tc><w:p>{run("42")}</w:p></w:tc></w:tr></w:tbl>
<w:p><w:pPr><w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr></w:pPr><w:del w:id="5"><w:r><w:delText>ancien</w:delText></w:r></w:del><w:ins w:id="6">{run("texte nouveau ")}</w:ins>{run("ajouté.")}</w:p>
<w:p>{run("La formule ")}<m:oMath {M}><m:r><m:t>E=mc</m:t></m:r></m:oMath>{run(" est belle.")}<w:r><w:br/></w:r>{run("Autre ligne.")}</w:p>
<w:p><w:pPr><w:bidi/></w:pPr>{run("این متن است", "<w:rtl/>")}</w:p>
<w:p><w:sdt><w:sdtPr><w:alias w:val="a"/></w:sdtPr><w:sdtContent>{run("contenu réglé")}</w:sdtContent></w:sdt>{run(" ici.")}</w:p>
<w:p>{run("Avant ")}<w:r><w:pict><v:shape xmlns:v="urn:schemas-microsoft-com:vml"><v:textbox><w:txbxContent><w:p>{run("dans la boîte")}</w:p></w:txbxContent></v:textbox></v:shape></w:pict></w:r>{run(" après.")}</w:p>"""


def part(root: str, *paragraphs: str) -> str:
    return f"{HEAD}<w:{root} {W}>{''.join(f'<w:p>{run(text)}</w:p>' for text in paragraphs)}</w:{root}>"


DOCX = archive(
    {
        "[Content_Types].xml": "<Types/>",
        "word/document.xml": f"{HEAD}<w:document {W}><w:body>{BODY}<w:sectPr/></w:body></w:document>",
        "word/styles.xml": f"{HEAD}<w:styles {W}/>",
        "word/header1.xml": part("hdr", "haut de page"),
        "word/footnotes.xml": f'{HEAD}<w:footnotes {W}><w:footnote w:id="2"><w:p><w:r><w:footnoteRef/></w:r>{run(" une note")}</w:p></w:footnote></w:footnotes>',
        "word/comments.xml": part("comments", "un commentaire"),
        "word/media/image1.png": b"\x89PNG",
    }
)


def slide_run(text: str, properties: str = "") -> str:
    return f'<a:r><a:rPr lang="fr-FR"{properties}/><a:t>{text}</a:t></a:r>'


SLIDE = f"""{HEAD}<p:sld {P} {A}><p:txBody><a:bodyPr/><a:p><a:pPr lvl="1"/>{slide_run("Un mot ")}{slide_run("important", ' b="1"')}{slide_run(" ici.")}<a:endParaRPr lang="fr-FR"/></a:p>
<a:p>{slide_run("Ligne une")}<a:br/>{slide_run("ligne deux, page ")}<a:fld id="{{1}}" type="slidenum"><a:t>7</a:t></a:fld></a:p></p:txBody></p:sld>"""
PPTX = archive(
    {
        "ppt/slides/slide1.xml": SLIDE,
        "ppt/notesSlides/notesSlide1.xml": f"{HEAD}<p:notes {P} {A}><a:p>{slide_run('des notes')}</a:p></p:notes>",
        "ppt/slideLayouts/slideLayout1.xml": f"{HEAD}<p:sldLayout {P} {A}><a:p>{slide_run('modèle gardé')}</a:p></p:sldLayout>",
    }
)
XLSX = archive(
    {
        "xl/workbook.xml": f'{HEAD}<workbook {S}><sheets><sheet name="Feuille une"/></sheets></workbook>',
        "xl/sharedStrings.xml": f"{HEAD}<sst {S}><si><t>Nom gardé</t></si><si><t>le chat</t></si><si><r><t xml:space='preserve'>un mot </t></r><r><rPr><b/></rPr><t>gras</t></r></si></sst>",
        "xl/worksheets/sheet1.xml": f"""{HEAD}<worksheet {S}><sheetData><row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="inlineStr"><is><t>Titre gardé</t></is></c></row>
<row r="2"><c r="A2" t="s"><v>1</v></c><c r="B2" t="inlineStr"><is><t>dans la cellule</t></is></c><c r="C2" t="str"><f>A2&amp;" dort"</f><v>le chat dort</v></c></row></sheetData></worksheet>""",
        "xl/worksheets/_rels/sheet1.xml.rels": '<Relationships><Relationship Type="http://x/table" Target="../tables/table1.xml"/></Relationships>',
        "xl/tables/table1.xml": f'<table {S} ref="A1:B2"><tableColumns><tableColumn name="Nom gardé"/><tableColumn name="Titre gardé"/></tableColumns></table>',
        "xl/comments1.xml": f"<comments {S}><commentList><comment><text><t>une remarque</t></text></comment></commentList></comments>",
    }
)
ODF = """xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0" xmlns:xlink="http://www.w3.org/1999/xlink" """
ODF_BODY = """<text:h text:outline-level="1">Le titre</text:h>
<text:p>Le <text:span text:style-name="B">chat <text:span text:style-name="I">très</text:span> noir</text:span><text:s text:c="2"/>dort<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>une note</text:p></text:note-body></text:note>.<text:line-break/>Voir <text:a xlink:href="http://x.org">ce lien</text:a>, page <text:page-number>3</text:page-number>.</text:p>
<text:p>Un <text:bookmark-start text:name="x"/>signet<text:bookmark-end text:name="x"/> et <draw:frame><draw:text-box><text:p>une boîte</text:p></draw:text-box></draw:frame> fin.</text:p>
<text:list><text:list-item><text:p>premier point</text:p></text:list-item></text:list>
<table:table><table:table-row><table:table-cell office:value-type="string"><text:p>du texte</text:p></table:table-cell>
<table:table-cell office:value-type="date"><text:p>12 mars gardé</text:p></table:table-cell><table:table-cell office:value-type="string" table:formula="of:=A1"><text:p>calcul gardé</text:p></table:table-cell></table:table-row></table:table>"""
ODT = archive(
    {
        "mimetype": "application/vnd.oasis.opendocument.text",
        "content.xml": f'<?xml version="1.0" encoding="UTF-8"?>\n<office:document-content {ODF}><office:body>{ODF_BODY}</office:body></office:document-content>',
        "styles.xml": f"<office:document-styles {ODF}><text:p>pied de page</text:p></office:document-styles>",
        "META-INF/manifest.xml": "<manifest/>",
    },
    stored=("mimetype",),
)
PAGE = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" "http://www.w3.org/TR/xhtml11/DTD/xhtml11.dtd">
<html xmlns="http://www.w3.org/1999/xhtml"><head><title>Chapitre un</title></head><body><p>Le <b>chat</b> dort. <a href="x.html">Suite</a></p><pre>code gardé</pre></body></html>"""
EPUB = archive(
    {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": "<container/>",
        "OEBPS/c1.xhtml": PAGE,
        "OEBPS/toc.ncx": "<ncx><navLabel><text>Chapitre un</text></navLabel></ncx>",
        "OEBPS/a.css": "p { color: red }",
    },
    stored=("mimetype",),
)
MARKDOWN = """---
title: Gardé
---
# Le *grand* titre #

Voici un **mot gras** avec `du code`, un [lien](http://x.org "t"), une ![image](a.png)
et une note[^1]. Voir [la page][r] ou [r] et <https://x.org>, $x^2$, snake_case.

- premier *point*
  sur deux lignes
- [ ] deuxième

1. un deux

> une citation
> sur deux lignes

    code gardé

```python
# gardé
```

| Nom | Âge du \\| chat |
|:----|-----|
| le chat | trois |

<div class="x">Un <b>bloc</b></div>

Fin de ligne{SPACES}
puis suite.

[r]: http://example.org/gardé
[^1]: La note.
""".replace("{SPACES}", "  ")
SRT = "1\r\n00:00:01,000 --> 00:00:02,500\r\n<i>Bonjour</i> à tous,\r\nmes chers amis.\r\n\r\n2\r\n00:00:03,000 --> 00:00:04,000\r\n- Oui ?\r\n- {\\an8}Non & <3 !\r\n"
VTT = "WEBVTT\n\nNOTE gardé\n\nSTYLE\n::cue { color: red }\n\nintro\n00:01.000 --> 00:02.000 align:start\n<v Jean>Salut <c.big>le</c> monde</v>\n"
PO = """msgid ""
msgstr ""
"Language: en\\n"

#: file.c
msgid "Open the file"
msgstr ""

msgctxt "menu"
msgid ""
"Two\\n"
"lines"
msgstr ""

msgid "done"
msgstr "gardé"

msgid "one cat"
msgid_plural "many cats"
msgstr[0] ""
msgstr[1] ""

#~ msgid "old"
#~ msgstr ""
"""
XLIFF = """<?xml version='1.0' encoding='UTF-8'?>
<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2"><file original="a" source-language="fr" datatype="plaintext"><body>
<trans-unit id="1"><source>Le <g id="1">chat</g> dort <x id="2"/> ici.</source></trans-unit>
<trans-unit id="2"><source>fait</source><target>done</target></trans-unit>
<trans-unit id="3" translate="no"><source>garde</source></trans-unit>
</body></file></xliff>"""
XLIFF2 = """<?xml version='1.0' encoding='UTF-8'?>
<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="fr"><file id="f"><unit id="1"><segment><source>Le <pc id="1">chat</pc> dort.</source></segment></unit></file></xliff>"""
JSON = (
    '{"titre": "Bonjour", "liste": ["un deux", {"texte": "le \\"chat\\"\\n dort", "n": 1.50, "vide": ""}], "x": true}\n'
)
CSV = 'id,texte,n\r\n1,"Bonjour, ""toi""",3\r\n2,Au revoir,4\r\n\r\n3,,5'
TXT = "Bonjour. Ça va ?\r\n  - un point\r\n\r\n\tfin"
HTML = '<!DOCTYPE html><html lang="fr"><head><title>Titre</title><style>p { color: red }</style></head><body><p class="x">Un <b>gros <i>chat</i></b> dort&nbsp;!</p><!-- gardé --><pre>code</pre></body></html>\n'


def pdf(*pages: Sequence[str], extra: Mapping[int, bytes] | None = None, trailer: str = "") -> bytes:
    """A PDF with these lines on its pages. A line may be (x, y, font, size, text) instead, with the fonts 1 (regular), 2
    (bold), 3 (italic), 4 (monospaced). `extra` has further objects, or replaces some."""
    fonts = ("Helvetica", "Helvetica-Bold", "Helvetica-Oblique", "Courier")
    objects = {
        1: b"<</Type/Catalog/Pages 2 0 R>>",
        2: f"<</Type/Pages/Count {len(pages)}/Kids[{' '.join(f'{20 + 2 * n} 0 R' for n in range(len(pages)))}]>>".encode(),
    }
    for number, name in enumerate(fonts, 1):
        objects[2 + number] = f"<</Type/Font/Subtype/Type1/BaseFont/{name}/Encoding/WinAnsiEncoding>>".encode()
    named = "".join(f"/F{number} {2 + number} 0 R" for number in range(1, len(fonts) + 1))
    for number, lines in enumerate(pages):
        drawn = []
        for row, line in enumerate(lines):
            x, y, font, size, text = line if isinstance(line, tuple) else (72, 750 - 14 * row, 1, 11, line)
            escaped = re.sub(rb"([()\\])", rb"\\\1", text.encode("cp1252"))
            drawn.append(f"BT /F{font} {size} Tf {x} {y} Td (".encode() + escaped + b") Tj ET")
        content, coded = b"\n".join(drawn), number % 2  # every second page is compressed
        page = f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Resources<</Font<<{named}>>>>/Contents {21 + 2 * number} 0 R>>"
        objects[20 + 2 * number] = page.encode()
        objects[21 + 2 * number] = stream(zlib.compress(content), "/Filter/FlateDecode") if coded else stream(content)
    objects |= extra or {}
    made, places = b"%PDF-1.7\n", {}
    for number, body in objects.items():
        places[number] = len(made)
        made += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    table = b"".join(b"%d 1\n%010d 00000 n \n" % (number, place) for number, place in places.items())
    root = f"trailer<</Root 1 0 R/Size {max(objects) + 1}{trailer}>>\nstartxref\n{len(made)}\n%%EOF\n"
    return made + b"xref\n0 1\n0000000000 65535 f \n" + table + root.encode()


def stream(content: bytes, more: str = "") -> bytes:
    return b"<</Length %d%b>>\nstream\n%b\nendstream" % (len(content), more.encode(), content)


PDF = pdf(
    [
        (72, 800, 1, 9, "Le bulletin de la ville"),
        (72, 750, 2, 18, "Le grand titre"),
        "",
        (72, 720, 1, 11, "La bibliothèque fut fondée par un groupe de commer-"),
        (72, 706, 1, 11, "çants qui aimaient beaucoup les"),
        (240, 706, 2, 11, " livres anciens"),
        (72, 692, 1, 11, "et les cartes du dix-neuvième siècle."),
        (86, 678, 1, 11, "Un incendie détruisit ensuite la plupart des manuscrits"),
        (72, 664, 1, 11, "de la ville, dont plusieurs venaient du dix-"),
        (72, 650, 1, 11, "neuvième siècle."),
        (80, 620, 1, 11, "•"),
        (92, 620, 1, 11, "un premier point"),
        (80, 606, 1, 11, "2."),
        (92, 606, 1, 11, "un second point"),
        (72, 580, 1, 11, "Année"),
        (200, 580, 1, 11, "Livres"),
        (72, 566, 1, 11, "1900"),
        (200, 566, 1, 11, "cent"),
        (72, 540, 4, 11, "print(x)"),
        (72, 500, 1, 11, "Les habitants reconstruisirent le bâtiment en trois ans"),
        (290, 40, 1, 9, "Page 1"),
    ],
    [
        (72, 800, 1, 9, "Le bulletin de la ville"),
        (72, 750, 1, 11, "avec une structure de métal, que l'on voit encore."),
        (290, 40, 1, 9, "Page 2"),
    ],
)
"""Two pages with header and footer, a word divided at a line's end, and a paragraph that goes on overleaf."""

SAMPLES: dict[str, bytes] = {
    "a.docx": DOCX,
    "a.pptx": PPTX,
    "a.xlsx": XLSX,
    "a.odt": ODT,
    "a.odp": ODT,
    "a.ods": ODT,
    "a.epub": EPUB,
    "a.md": MARKDOWN.encode(),
    "a.html": HTML.encode(),
    "a.pdf": PDF,
    "a.srt": SRT.encode(),
    "a.vtt": VTT.encode(),
    "a.po": PO.encode(),
    "a.xliff": XLIFF.encode(),
    "b.xliff": XLIFF2.encode(),
    "a.json": JSON.encode(),
    "a.csv": CSV.encode(),
    "a.txt": TXT.encode(),
}
COLUMNS = {"a.csv": ["texte"]}
