"""`regard translate DOCUMENT --output FILE`, and the same from Python."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from documents.samples import SAMPLES, members

import regard as package
from regard.cli.document import is_document
from regard.documents import translation
from regard.errors import UserError

from .conftest import regard

PAGE = "<h1>Où est la gare ?</h1>\n<p title='x'>Je suis <b>étudiant</b>.</p><pre>le code</pre>\n"


@pytest.fixture(scope="module")
def translator():
    return package.load("fr-en", device="cpu")


def test_a_page_with_the_shipped_model(tmp_path: Path) -> None:
    given, made = tmp_path / "page.html", tmp_path / "out.html"
    given.write_text(PAGE, encoding="utf-8")
    done = regard(
        "translate", str(given), "--output", str(made), "--device", "cpu", "--from", "fr", "--to", "en", text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    found = made.read_text(encoding="utf-8")
    assert found.startswith("<h1>Where's the station?</h1>\n<p title='x'>I'm <b>a student</b>.</p><pre>le code</pre>")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.html", "page.html"]


def test_from_python(tmp_path: Path, translator) -> None:
    given, made = tmp_path / "a.docx", tmp_path / "b.docx"
    given.write_bytes(SAMPLES["a.docx"])
    seen: list[tuple[int, int]] = []
    package.translate_document(given, made, translator, progress=lambda *told: seen.append(told), beam=1)
    document = members(made.read_bytes())["word/document.xml"].decode()
    assert "The report" in document and "Le rapport" not in document and "E=mc" in document
    assert seen[-1][0] == seen[-1][1] > 10
    table = tmp_path / "a.csv"
    table.write_text("id,texte\noui,oui\n")
    package.translate_document(table, tmp_path / "b.csv", translator, columns=["texte"], source="fr", target="en")
    row = (tmp_path / "b.csv").read_text().splitlines()[1]
    assert row.startswith("oui,") and row != "oui,oui"


def test_what_goes_wrong_writes_nothing(tmp_path: Path, translator, monkeypatch: pytest.MonkeyPatch) -> None:
    given, made = tmp_path / "a.html", tmp_path / "b.html"
    given.write_text(PAGE)

    class Fails:
        recipe = translator.recipe

        def translate(self, *given, **options):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        package.translate_document(given, made, Fails())

    def full(*given: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(translation.AtomicFile, "finish", full)
    with pytest.raises(UserError, match="cannot be written: No space left"):
        package.translate_document(given, made, translator, beam=1)
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]


@pytest.mark.parametrize(
    "name, output, says",
    [
        ("a.docx", "b.odt", "would have another format than a.docx; end its name in .docx"),
        ("a.docx", "a.docx", "is the document itself; name another file"),
        ("a.docx", "no/b.docx", "its folder is missing"),
        ("no.docx", "b.docx", "no.docx cannot be read: No such file"),
        ("folder.docx", "b.docx", "folder.docx cannot be read"),
        ("fifo.docx", "b.docx", "fifo.docx cannot be read"),
        ("bad.docx", "b.docx", "bad.docx: the file is not a zip archive"),
        ("a.doc", "b.doc", "a.doc: documents of this kind cannot be translated, only .csv"),
        ("a.docx", "folder.docx", "it is a folder"),
    ],
)
def test_refused_before_a_model_is_loaded(
    name: str, output: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.docx").write_bytes(SAMPLES["a.docx"])
    Path("bad.docx").write_text("x")
    Path("a.doc").write_text("x")
    Path("folder.docx").mkdir()
    subprocess.run(["mkfifo", "fifo.docx"], check=True)
    with pytest.raises(UserError) as refused:
        translation.open_document(name, output)
    assert says in str(refused.value) and "\n" not in str(refused.value)


def test_what_is_a_document(tmp_path: Path) -> None:
    out = Path("x")
    assert is_document(["a.docx"], None, out) and is_document([__file__], None, out)
    assert not is_document(["a.docx"], None, None), "without --output it is text"
    assert not is_document(["Bonjour."], None, out) and not is_document(["a.md", "b.md"], None, out)
    assert not is_document(["a.md"], "corpus", out) and not is_document(None, None, out)


def test_another_language_is_refused_and_a_model_for_several_is_told_one(tmp_path: Path, monkeypatch) -> None:
    from regard.cli.language_choice import LanguageChoice
    from tests.cli.test_language_choice import FIVE, ONE, TEXTS, Fake

    monkeypatch.setenv("LC_ALL", "C")
    french = LanguageChoice(Fake(ONE), "fr-en", None, None)
    with pytest.raises(UserError, match=r"a.md is in de \(German\), but fr-en translates from fr"):
        french.direction_of_document(TEXTS["de"], "a.md")
    assert LanguageChoice(Fake(FIVE), "five", None, None).direction_of_document(TEXTS["de"], "a.md") == {
        "source": "de",
        "target": "en",
    }
    with pytest.raises(UserError, match="in German already"):
        LanguageChoice(Fake(FIVE), "five", None, "de").direction_of_document(TEXTS["de"], "a.md")
    given, made = tmp_path / "a.txt", tmp_path / "b.txt"
    given.write_text(f"{TEXTS['es']}\n{TEXTS['es']}\n{TEXTS['fa']}\n", encoding="utf-8")
    package.translate_document(given, made, Fake(FIVE), target="fr")
    assert made.read_text() == f"es>fr\nes>fr\n{TEXTS['fa']}\n", "a quotation stays as it is"
    package.translate_document(given, made, Fake(FIVE), source="es", target="fr")
    assert made.read_text() == "es>fr\n" * 3, "unless the language is said"
