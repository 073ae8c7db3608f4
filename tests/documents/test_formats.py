"""Every format: the identity changes nothing, upper case changes letters alone, and formatting follows its words."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from documents.samples import COLUMNS, ODF, SAMPLES, W, archive, members, run

from regard.documents.formats import FORMATS, WRITTEN_AS, read_document, suffix_of
from regard.documents.translation import Translate, translate_texts
from regard.errors import UserError
from regard.text.alignment import AlignedText, Links

ARCHIVES = [name for name, content in SAMPLES.items() if content.startswith(b"PK")]
FILLED = ("a.po", "a.xliff", "b.xliff")
"""Formats that hold the translation beside the text."""


def aligned(found: Sequence[tuple[str, Links]], n_best: int) -> list[list[AlignedText]]:
    return [[AlignedText(text, links)] * n_best for text, links in found]


def same(sentences: list[str], n_best: int) -> list[list[AlignedText]]:
    return aligned([(one, [(n, n) for n in range(len(one.split()))]) for one in sentences], n_best)


def upper(sentences: list[str], n_best: int) -> list[list[AlignedText]]:
    return aligned([(one.upper(), [(n, n) for n in range(len(one.split()))]) for one in sentences], n_best)


def backwards(sentences: list[str], n_best: int) -> list[list[AlignedText]]:
    """The words in reverse order."""
    words = [one.split() for one in sentences]
    return aligned([(" ".join(one[::-1]), [(n, len(one) - 1 - n) for n in range(len(one))]) for one in words], n_best)


def translated(name: str, translate: Translate, content: bytes | None = None, columns: Sequence[str] = ()) -> bytes:
    document = read_document(content or SAMPLES[name], name, columns or COLUMNS.get(name, ()))
    return document.write(translate_texts(document, translate))


def words_of(content: bytes) -> dict[str, str]:
    """The text of each XML member without its tags and white space, found without our code."""
    found = {}
    for name, member in members(content).items():
        if name.endswith((".xml", ".xhtml", ".ncx")):
            found[name] = re.sub(r"\s+", "", re.sub(r"<[^>]*>", "", member.decode()))
    return found


def elements_of(content: bytes, but: str = "") -> dict[str, list[str]]:
    """The elements of each XML member with their attributes, in order, without runs."""
    found = {}
    for name, member in members(content).items():
        if name.endswith((".xml", ".xhtml", ".ncx")):
            tags = re.findall(r"<(?!\?)[^>]*>", member.decode())
            found[name] = [re.sub(r"\s*(/?)>$", r"\1>", tag) for tag in tags if not (but and re.match(but, tag))]
    return found


REWRITTEN = [name for name in SAMPLES if suffix_of(name) not in WRITTEN_AS]
"""Those whose translation has their own format: all but PDF (test_pdf.py)."""


@pytest.mark.parametrize("name", REWRITTEN)
def test_the_identity_changes_nothing(name: str) -> None:
    found = translated(name, same)
    if name in ARCHIVES:
        assert members(found) == members(SAMPLES[name])
    elif name not in FILLED:
        assert found == SAMPLES[name]


RUNS = r"</?(?:w:r|w:t|w:rPr|w:b|w:u|w:color|w:lang|w:rtl|w:proofErr|a:r|a:t|a:rPr|si|is|r|t|rPr|b|text:s)\b"


@pytest.mark.parametrize("name", ARCHIVES)
def test_upper_case_changes_letters_alone(name: str) -> None:
    given, found = SAMPLES[name], translated(name, upper)
    assert members(given).keys() == members(found).keys()
    assert elements_of(found, RUNS) == elements_of(given, RUNS)
    before, after = words_of(given), words_of(found)
    kept = [
        "ancien",
        "E=mc",
        "modèlegardé",
        "Nomgardé",
        "Titregardé",
        "lechatdort",
        "12marsgardé",
        "calculgardé",
        "codegardé",
    ]
    for part, text in before.items():
        if part in ("word/styles.xml", "META-INF/container.xml"):
            continue
        expected = text.upper()
        for one in [*kept, " HYPERLINK", "http"]:
            if one in text:
                expected = expected.replace(one.upper(), one)
        expected = re.sub(r'HYPERLINK"HTTP://X.ORG"', 'HYPERLINK"http://x.org"', expected, flags=re.I)
        expected = expected.replace('A2&AMP;"DORT"', 'A2&amp;"dort"')
        assert after[part] == expected, part


def test_runs_of_one_formatting_are_one_and_formatting_follows_its_words() -> None:
    found = members(translated("a.docx", backwards))["word/document.xml"].decode()
    paragraph = re.findall(r"<w:p>.*?</w:p>", found, re.S)[1]
    bold = re.findall(r"<w:r><w:rPr><w:b/></w:rPr><w:t[^>]*>([^<]*)</w:t></w:r>", paragraph)
    assert bold == ["noir chat"], "two runs that look alike, one of them with a language"
    assert "proofErr" not in paragraph
    texts = "".join(re.findall(r"<w:t[^>]*>([^<]*)", paragraph))
    assert texts == "dort. noir chat Le encore. rêve Il" or texts.split() == [
        "dort.",
        "noir",
        "chat",
        "Le",
        "encore.",
        "rêve",
        "Il",
    ]
    assert paragraph.index("commentRangeStart") < paragraph.index("commentRangeEnd"), "ranges keep their order"
    link = re.search(r"<w:hyperlink[^>]*>(.*?)</w:hyperlink>", found, re.S)
    assert link and re.findall(r"<w:t[^>]*>([^<]*)", link[1]) == ["page cette"]
    inside = re.search(r'"begin"/></w:r><w:r><w:instrText> HYPERLINK (.*?)fldCharType="end"', found)
    assert inside and inside[1].index('"separate"') < inside[1].index("lien, ce"), "a field stays around its text"


def test_formatting_follows_its_words_in_other_formats() -> None:
    def reordered(name: str, given: bytes) -> str:
        return translated(name, backwards, given).decode()

    assert reordered("a.md", b"un **gros chat** [dort](x.html)") == "[dort](x.html) **chat gros** un"
    assert reordered("a.srt", b"1\n00:01,000 --> 00:02,000\nun <i>gros chat</i> dort\n").endswith(
        "dort <i>chat gros</i> un\n"
    )
    assert reordered("a.html", b"un <b>gros chat</b> dort") == "dort <b>chat gros</b> un"
    odt = members(translated("a.odt", backwards))["content.xml"].decode()
    assert re.search(
        r'<text:span text:style-name="B">noir <text:span text:style-name="I">très</text:span> chat</text:span>', odt
    )
    spans = '<text:span text:style-name="A">un </text:span><text:span text:style-name="B">gros</text:span><text:span text:style-name="A"> chat</text:span>'
    everywhere = archive({"content.xml": f"<x {ODF}><text:p>{spans}</text:p></x>"})
    found = members(translated("a.odt", backwards, everywhere))["content.xml"].decode()
    assert re.findall(r'style-name="(.)">([^<]*)<', found) == [("A", "chat "), ("B", "gros"), ("A", " un")], (
        "no text is left bare"
    )
    slide = members(translated("a.pptx", backwards))["ppt/slides/slide1.xml"].decode()
    assert re.search(r'<a:rPr lang="fr-FR" b="1"/><a:t>important</a:t>', slide) and slide.index(
        "endParaRPr"
    ) > slide.index("Un")
    xliff = reordered("a.xliff", SAMPLES["a.xliff"])
    assert '<g id="1">chat</g>' in xliff.partition("<target>")[2]


def test_a_line_break_in_a_cell_ends_a_sentence() -> None:
    name = next(name for name in SAMPLES if name.endswith(".xlsx"))
    given = members(SAMPLES[name])
    strings = given["xl/sharedStrings.xml"].replace(b"le chat", b"une ligne&#10;deux lignes")
    made = members(translated(name, backwards, archive({**given, "xl/sharedStrings.xml": strings})))
    text = re.sub(r"<[^>]*>", "", made["xl/sharedStrings.xml"].decode())
    assert "ligne une\nlignes deux" in text


def test_markdown() -> None:
    found = translated("a.md", upper).decode()
    assert found == (MARKDOWN_UPPER), (
        "everything but words is the same; a paragraph that changes is written in one line"
    )


MARKDOWN_UPPER = """---
title: Gardé
---
# LE *GRAND* TITRE #

VOICI UN **MOT GRAS** AVEC `du code`, UN [LIEN](http://x.org "t"), UNE ![IMAGE](a.png) ET UNE NOTE[^1]. VOIR [LA PAGE][r] OU [r] ET <https://x.org>, $x^2$, snake_case.

- PREMIER *POINT* SUR DEUX LIGNES
- [ ] DEUXIÈME

1. UN DEUX

> UNE CITATION SUR DEUX LIGNES

    code gardé

```python
# gardé
```

| NOM | ÂGE DU \\| CHAT |
|:----|-----|
| LE CHAT | TROIS |

<div class="x">UN <b>BLOC</b></div>

FIN DE LIGNE\\
PUIS SUITE.

[r]: http://example.org/gardé
[^1]: LA NOTE.
"""


@pytest.mark.parametrize(
    "given, expected",
    [
        ("2 \\* 3 est six", "2 \\* 3 EST SIX"),
        ("a **b", "A **B"),
        ("mot_au_milieu et _mot_", "mot_au_milieu ET _MOT_"),
        ("![a [b](c)](d) e", "![A [B](c)](d) E"),
        ("un [x] deux ]( trois", "UN [X] DEUX ]( TROIS"),
        ("titre\n=====\n\ntexte", "TITRE\n=====\n\nTEXTE"),
        ("<!-- non\n-->\n\noui", "<!-- non\n-->\n\nOUI"),
        ("- a b\n\n      code\n\nfin", "- A B\n\n      CODE\n\nFIN"),
        ("~~~\nnon\n~~~\noui", "~~~\nnon\n~~~\nOUI"),
        ("***", "***"),
        ("oui <b>gros</b> <br> non", "OUI <b>GROS</b> <br> NON"),
        ("a &lt; b &amp; caf&eacute;", "A < B & CAFÉ"),
        ("a &lt;b&gt; et &amp;lt; oui", "A &lt;b> ET &amp;LT; OUI"),
        ("", ""),
    ],
)  # fmt: skip
def test_markdown_in_detail(given: str, expected: str) -> None:
    assert translated("a.md", same, given.encode() or b"\n").decode() == (given or "\n")
    found = translated("a.md", upper, given.encode() or b"\n").decode()
    assert found == (expected or "\n")


def test_a_translation_cannot_become_markup() -> None:
    def says(text: str) -> Translate:
        return lambda sentences, n_best: [[AlignedText(text, [])] * n_best for _ in sentences]

    assert translated("a.md", says("# titre"), b"oui").decode() == "\\# titre"
    assert translated("a.md", says("1. un"), b"oui").decode() == "1\\. un"
    assert translated("a.csv", says('a,"b'), b"x\noui", ["x"]).decode() == 'x\n"a,""b"'
    assert translated("a.json", says('a"\\\n'), b'["oui"]').decode() == '["a\\"\\\\\\n"]'
    assert translated("a.po", says('a"\\'), b'msgid "oui"\nmsgstr ""\n').decode() == 'msgid "oui"\nmsgstr "a\\"\\\\"\n'
    docx = archive({"word/document.xml": f"<w:document {W}><w:p>{run('oui')}</w:p></w:document>"})
    found = members(translated("a.docx", says("a <b/> & \x00\x0b\ufffe \ud800"), docx))["word/document.xml"].decode()
    assert "a &lt;b/&gt; &amp; " in found


def test_catalogues_are_filled_and_kept() -> None:
    found = translated("a.po", upper).decode()
    assert found == SAMPLES["a.po"].decode().replace('"Open the file"\nmsgstr ""', '"Open the file"\nmsgstr "OPEN THE FILE"').replace(
        '"lines"\nmsgstr ""', '"lines"\nmsgstr ""\n"TWO\\n"\n"LINES"'
    ).replace('msgstr[0] ""', 'msgstr[0] "ONE CAT"').replace('msgstr[1] ""', 'msgstr[1] "MANY CATS"')  # fmt: skip
    xliff = translated("a.xliff", upper).decode()
    target = '<target>LE <g id="1">CHAT</g> DORT <x id="2"/> ICI.</target>'
    assert xliff == SAMPLES["a.xliff"].decode().replace("ici.</source>", f"ici.</source>{target}")
    second = translated("b.xliff", upper).decode()
    assert '<target>LE <pc id="1">CHAT</pc> DORT.</target></segment>' in second


def test_subtitles_keep_times_and_the_number_of_lines() -> None:
    found = translated("a.srt", upper).decode()
    assert found == SAMPLES["a.srt"].decode().replace("Bonjour", "BONJOUR").replace("à tous", "À TOUS").replace(
        "mes chers amis", "MES CHERS AMIS"
    ).replace("Oui", "OUI").replace("Non", "NON")  # fmt: skip
    vtt = translated("a.vtt", upper).decode()
    assert vtt == SAMPLES["a.vtt"].decode().replace("Salut", "SALUT").replace(">le<", ">LE<").replace("monde", "MONDE")


def test_tables_and_json_by_columns_and_keys() -> None:
    found = translated("a.csv", upper).decode()
    assert found == SAMPLES["a.csv"].decode().replace("Bonjour", "BONJOUR").replace("toi", "TOI").replace(
        "Au revoir", "AU REVOIR"
    )
    assert translated("a.tsv", upper, b"a\tb\noui\tnon", ["2"]) == b"a\tb\noui\tNON"
    assert translated("a.csv", upper, b"a;b\noui;non", ["a", "b"]) == b"a;b\nOUI;NON"
    given = SAMPLES["a.json"]
    assert translated("a.json", upper, given, ["liste.texte"]).decode() == given.decode().replace(
        'le \\"chat\\"\\n dort', 'LE \\"CHAT\\"\\n DORT'
    )
    assert translated("a.json", upper, given, ["liste"]).decode().count("UN DEUX") == 1
    assert translated("a.json", upper, b'["\\u00e9t\\u00e9"]') == b'["\\u00c9T\\u00c9"]'
    for name, content, columns, says in (
        (
            "a.csv",
            b"a,b\n1,2",
            [],
            "name the columns to translate with --columns, separated by commas (over HTTP in the field columns); there are: a, b",
        ),
        ("a.csv", b"a,b\n1,2", ["c"], "there is no column 'c'; there are: a, b"),
        ("a.json", b'{"a": "x"}', ["b"], "no text under the key 'b'"),
        ("a.md", b"x", ["b"], "only tables"),
        ("a.exe", b"x", [], "cannot be translated, only .csv"),
    ):
        with pytest.raises(UserError, match=re.escape(says)):
            read_document(content, name, columns)


def test_encodings() -> None:
    assert translated("a.txt", upper, "\ufeffété".encode()) == "\ufeffÉTÉ".encode()
    assert (
        translated("a.srt", upper, "\ufeff1\n00:01,000 --> 00:02,000\nété\n".encode("utf-16"))
        .decode("utf-16")
        .endswith("ÉTÉ\n")
    )
    page = '<meta charset="iso-8859-1"><p>été'.encode("latin-1")
    assert translated("a.html", upper, page) == '<meta charset="iso-8859-1"><p>ÉTÉ'.encode("latin-1")
    greek = translated("a.html", lambda some, n: [[AlignedText("Ω", [])] * n for _ in some], page)
    assert greek.endswith(b"&#937;"), "a character that the page's encoding lacks"
    for bad in (b"\xff\xfe\x00", "été".encode("latin-1")):
        with pytest.raises(UserError, match="not UTF"):
            read_document(bad, "a.txt")


def test_without_alignment_each_text_between_tags_is_separate() -> None:
    document = read_document(b"<p>un <b>gros</b> chat</p>", "a.html")
    asked: list[str] = []

    def translate(sentences: list[str], n_best: int) -> list[list[AlignedText]]:
        asked.extend(sentences)
        return [[AlignedText(one.upper())] * n_best for one in sentences]

    assert document.write(translate_texts(document, translate, whole=False)) == b"<p>UN <b>GROS</b> CHAT</p>"
    assert asked == ["un", "gros", "chat"]


def test_every_format_has_a_sample() -> None:
    assert {FORMATS["." + name.partition(".")[2]] for name in SAMPLES} == set(FORMATS.values())
