"""Files that hold texts beside their translations, as pairs."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.documents.bilingual import read_bilingual
from regard.documents.document import TranslatedPair
from regard.errors import UserError

PO = r"""
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"
"Language: pt_BR\n"

msgid "Open"
msgstr ""

msgid ""
"Delete %d\n"
"files?"
msgstr "Apagar?"

#~ msgid "old"
#~ msgstr "velho"

msgctxt "menu"
msgid "one file"
msgid_plural "%d files"
msgstr[0] "um arquivo"
msgstr[1] "%d arquivos"
"""
XLIFF = """<?xml version="1.0"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
 <file source-language="en" target-language="de" original="a" datatype="plaintext"><body>
  <trans-unit id="1"><source>Press <g id="1">OK</g><x id="2"/>.</source><target>Drücken Sie <g id="1">OK</g>.</target></trans-unit>
  <trans-unit id="2"><source>Open</source><target/></trans-unit>
 </body></file>
</xliff>
"""


def test_a_catalogue(tmp_path: Path) -> None:
    (tmp_path / "a.po").write_text(PO)
    found = read_bilingual(tmp_path / "a.po")
    assert found.target_language == "pt_BR" and found.pairs == [
        TranslatedPair("Delete %d\nfiles?", "Apagar?", "line 13"),
        TranslatedPair("one file", "um arquivo", "line 21"),
        TranslatedPair("%d files", "%d arquivos", "line 22"),
    ]


def test_xliff_has_its_elements_as_tags(tmp_path: Path) -> None:
    (tmp_path / "a.xliff").write_text(XLIFF)
    found = read_bilingual(tmp_path / "a.xliff")
    assert (found.source_language, found.target_language) == ("en", "de") and found.pairs == [
        TranslatedPair("Press <g id=1>OK</g><x id=2/>.", "Drücken Sie <g id=1>OK</g>.", "line 4")
    ]


def test_lines_of_two_files_or_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "a.fr").write_text("un\n\ntrois\n")
    (tmp_path / "a.en").write_text("one\n\nthree\n")
    (tmp_path / "a.tsv").write_text("un\tone\n\t\ntrois\tthree\n")
    wanted = [("un", "one", "line 1"), ("", "", "line 2"), ("trois", "three", "line 3")]
    assert read_bilingual(tmp_path / "a.fr", tmp_path / "a.en").pairs == wanted
    assert read_bilingual(tmp_path / "a.tsv").pairs == wanted


@pytest.mark.parametrize(
    ("name", "content", "target", "message"),
    [
        ("a.fr", "un\n", None, "name its translation, too"),
        ("a.po", PO, "a.en", "holds both texts; leave out"),
        ("b.po", None, None, "cannot be read (No such file or directory)"),
        ("a.po", "text", None, "the file is no message catalogue"),
        ("a.xlf", "<a/>", None, "the file is no XLIFF"),
        ("a.xlf", "<a", None, "a.xlf"),
    ],
)
def test_refused(name: str, content: str | None, target: str | None, message: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(UserError) as refused:
        read_bilingual(tmp_path / name, target and tmp_path / target)
    assert message in str(refused.value) and "\n" not in str(refused.value)
