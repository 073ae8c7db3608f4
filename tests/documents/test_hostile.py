"""Documents made to hurt: each is translated or refused in one line, soon and in bounded memory; no file is left."""

from __future__ import annotations

import io
import random
import resource
import subprocess
import tempfile
import time
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import pytest
from documents.samples import COLUMNS, HEAD, SAMPLES, W, archive, members, pdf, run, stream
from documents.test_formats import same

from regard.child_process import child_environment, python_command
from regard.documents import archive as archive_module
from regard.documents.archive import Archive
from regard.documents.formats import read_document
from regard.documents.pdf import extraction
from regard.documents.translation import translate_texts
from regard.errors import UserError

MUTATIONS = 12
"""Of every sample; together more than 200."""
SECONDS = 10.0
"""For any small document on a busy machine."""
MIB = 1 << 20


def tried(name: str, content: bytes, seconds: float = SECONDS) -> str:
    """The message that refuses a document; empty if it is translated."""
    start = seconds_of_processor()
    try:
        document = read_document(content, name, COLUMNS.get(name, ()))
        made = document.write(translate_texts(document, same))
        assert isinstance(made, bytes)
        message = ""
    except UserError as error:
        message = str(error)
        assert message.startswith(name) and "\n" not in message and len(message) < 600, message
    assert seconds_of_processor() - start < seconds, f"{name}: {message}"
    return message


def seconds_of_processor() -> float:
    """Of this process and of those that read PDF."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def mutated(content: bytes, chance: random.Random) -> bytes:
    """A few bytes flipped, cut, doubled or moved; of an archive half of the time those of a member."""
    if content.startswith(b"PK") and chance.random() < 0.7:
        inside = members(content)
        name = chance.choice([one for one in inside if inside[one]])
        return archive(inside | {name: mutated(inside[name], chance)})
    made = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        at, size = chance.randrange(len(made)), chance.randint(1, 40)
        match chance.randrange(5):
            case 0:
                made[at] = chance.randrange(256)
            case 1:
                del made[at : at + size]
            case 2:
                made[at:at] = made[at : at + size] * chance.randint(1, 50)
            case 3:
                made[at:at] = chance.choice(
                    [
                        b"<",
                        b">",
                        b"&",
                        b"<!DOCTYPE x [",
                        b'"',
                        b"\x00",
                        b"]]>",
                        b"\n\n",
                        b"</w:p>",
                        b"<w:p>",
                        b"{",
                        b"```",
                        b"\xff",
                    ]
                )
            case _:
                made = made[:at] + made[at + size :] + made[at : at + size]
        made = made or bytearray(b"x")
    return bytes(made)


@pytest.mark.parametrize("name", SAMPLES)
def test_mutations_are_translated_or_refused_in_one_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")  # a temporary file would be an error
    chance = random.Random(name)
    seen = {bool(tried(name, mutated(SAMPLES[name], chance))) for _ in range(MUTATIONS)}
    assert seen <= {True, False}


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLES)
def test_many_more_mutations(name: str) -> None:
    chance = random.Random(f"{name} at length")
    for _ in range(100 if name == "a.pdf" else 500):
        tried(name, mutated(SAMPLES[name], chance))


ENTITIES = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10 if n else "ha"}">' for n in range(10))
DOCUMENT = f"<w:document {W}><w:body>{{}}</w:body></w:document>"


def docx(body: str) -> bytes:
    return archive({"word/document.xml": HEAD + DOCUMENT.format(body)})


def test_entities_and_external_files_are_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    for kind in (ENTITIES, f'<!ENTITY e9 SYSTEM "file://{secret}">', '<!ENTITY % p SYSTEM "http://127.0.0.1:1/x"> %p;'):
        text = f"<!DOCTYPE x [{kind}]>" + DOCUMENT.format(f"<w:p>{run('&e9;')}</w:p>")
        for content in (
            text.encode(),
            text.encode("utf-16"),
            f'<?xml version="1.0" encoding="iso-8859-1"?>{text}'.encode(),
        ):
            assert "document type" in tried("a.docx", archive({"word/document.xml": content}))
    for coding in ("utf-7", "utf-32", "cp037", "x"):
        text = f'<?xml version="1.0" encoding="{coding}"?><x/>'.encode()
        assert "save it as UTF-8" in tried("a.docx", archive({"word/document.xml": text}))
    hidden = f"<!DOCTYPE x [{ENTITIES}]><x>&e9;</x>".encode("utf-16-le")  # no mark and no declaration
    assert "not well-formed" in tried("a.docx", archive({"word/document.xml": hidden}))
    assert "not well-formed" in tried("a.xliff", b"<xliff>&e9;</xliff>")


def test_archives_that_lie_are_refused() -> None:
    inside = {"word/document.xml": DOCUMENT.format("")}
    encrypted = bytearray(archive(inside))
    encrypted[encrypted.index(b"PK\x01\x02") + 8] |= 1
    assert "encrypted" in tried("a.docx", bytes(encrypted))
    twice = io.BytesIO()
    with zipfile.ZipFile(twice, "w") as target, pytest.warns(UserWarning):
        target.writestr("a", "x")
        target.writestr("a", "y")
    assert "two members" in tried("a.docx", twice.getvalue())
    assert "members" in tried("a.docx", archive({f"word/{n}.xml": "<x/>" for n in range(10_001)}))
    damaged = archive({"word/document.xml": HEAD + DOCUMENT.format(f"<w:p>{run('bonjour' * 100)}</w:p>")})
    at = damaged.index(b"word/document.xml") + 40
    assert "damaged at 'word/document.xml'" in tried("a.docx", damaged[:at] + b"\xff\xff\xff\xff" + damaged[at + 4 :])
    for name in ("a.docx", "a.pptx", "a.xlsx", "a.odt", "a.epub"):
        assert "is no " in tried(name, archive({"x": "y"})), name
    lzma = io.BytesIO()
    with zipfile.ZipFile(lzma, "w", zipfile.ZIP_LZMA) as target:
        target.writestr("word/document.xml", "<x/>")
    assert "compressed in a way" in tried("a.docx", lzma.getvalue())
    folders = archive({**members(SAMPLES["a.docx"]), "../../evil": "x", "/etc/evil": "y"})
    assert not tried("a.docx", folders) and set(members(folders)) >= {"../../evil"}, "names lead nowhere"
    assert not Path("../../evil").exists()


def test_a_member_is_never_larger_than_the_directory_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that lies about its size is cut or damaged, whatever the limit."""
    content = bytearray(archive({"word/document.xml": b"<x>" + b"a" * 100_000 + b"</x>"}))
    directory = content.index(b"PK\x01\x02")
    content[directory + 24 : directory + 28] = (10).to_bytes(4, "little")
    assert tried("a.docx", bytes(content))
    monkeypatch.setattr(archive_module, "MAX_TEXT", 1000)
    large = Archive(archive({"a": b"x" * 5000}))
    with pytest.raises(UserError, match="larger than"):
        large.read("a")


BOMBS = """
import io, resource, sys, zipfile
sys.path[:0] = [{tests!r}]
from documents.samples import archive
from documents.test_hostile import tried
space, dense = b" " * (1 << 20), b"<a/>" * 1_100_000

def bomb(*sizes):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as target:
        for number, size in enumerate(sizes):
            with target.open(f"word/{{number}}.xml", "w") as member:
                member.write(b"<x>")
                for _ in range(size):
                    member.write(space)
                member.write(b"</x>")
    return made.getvalue()

start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
made = bomb(520)
assert len(made) < 4 << 20 and "unpacks to more than 512 MiB" in tried("a.docx", made)
assert "larger than 32 MiB" in tried("a.docx", bomb(33))
assert "more than 64 MiB of text" in tried("a.docx", bomb(*[9] * 9))
assert "1,000,000 tags" in tried("a.docx", archive({{"word/document.xml": b"<x>" + dense + b"</x>"}}))
assert "1,000,000 tags" in tried("a.xliff", b"<x>" + dense + b"</x>")
end = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((end - start) // 1024)
"""


def test_bombs_take_little_memory() -> None:
    tests = str(Path(__file__).parents[1])
    command = python_command("-c", BOMBS.format(tests=tests))
    done = subprocess.run(command, env=child_environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 300, f"{done.stdout} MiB"


FLATE = "/Filter/FlateDecode"
SPACES = zlib.compress(b" " * (100 * MIB))
CONTENT = b"BT /F1 9 Tf (oui) Tj ET"
FORM = "/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources"


def pdf_bomb(name: str) -> bytes:
    def spread(page: str, more: Mapping[int, bytes]) -> bytes:
        said = f"<</Type/Page/Parent 2 0 R/Resources<<{page}>>/Contents 21 0 R>>"
        return pdf(["oui"], extra={20: said.encode(), **more})

    match name:
        case "stream":
            return pdf(["oui"], extra={21: stream(SPACES, FLATE)})
        case "stream in a stream":
            return pdf(["oui"], extra={21: stream(zlib.compress(SPACES), "/Filter[/FlateDecode/FlateDecode]")})
        case "pages":
            return pdf(["oui"], extra={2: b"<</Type/Pages/Count 90000/Kids[" + b"20 0 R " * 90_000 + b"]>>"})
        case "cycle of pages":
            return pdf(["oui"], extra={2: b"<</Type/Pages/Count 2/Kids[2 0 R 20 0 R]>>"})
        case "characters":
            ranges = b"1 begincodespacerange <00> <FF> endcodespacerange 1 beginbfrange <00000000> <FFFFFFFF> <0041> endbfrange"
            font = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/ToUnicode 50 0 R>>"
            return pdf(["oui"], extra={3: font, 50: stream(ranges)})
        case "nested lists":
            return pdf(["oui"], extra={21: stream(b"[" * 200_000)})
        case "forms in forms":  # ten in each of ten in each ...
            forms = {100 + n: stream(b"/X Do " * 10, f"{FORM}<</XObject<</X {101 + n} 0 R>>>>") for n in range(10)}
            return spread(
                "/XObject<</X 100 0 R>>", {**forms, 21: stream(b"/X Do"), 110: stream(CONTENT, f"{FORM}<<>>")}
            )
        case "operators":
            return pdf(["oui"], extra={21: stream(zlib.compress(b"q " * (20 * MIB)), FLATE)})
        case "letters":
            text = zlib.compress(b"BT /F1 9 Tf (" + b"ab " * (20 * MIB) + b") Tj ET")
            return pdf(["oui"], extra={21: stream(text, FLATE)})
        case _:
            fonts = "".join(f"/F{number} 3 0 R" for number in range(90_000))
            return spread(f"/Font<<{fonts}>>", {})


@pytest.mark.parametrize("name", ["stream", "pages", "cycle of pages", "characters", "nested lists"])
def test_pdf_bombs_are_refused(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert tried("a.pdf", pdf_bomb(name))
    assert not list(tmp_path.iterdir()), "nothing is left on the disk"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["stream in a stream", "forms in forms", "operators", "letters", "fonts"])
def test_slow_pdf_bombs_are_bounded(name: str) -> None:
    """The limit on processor time is the promise; it is below what is allowed here."""
    tried("a.pdf", pdf_bomb(name), extraction.SECONDS + 10.0)
    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    assert used < (extraction.MEMORY >> 10) + 200_000, f"{used} KiB"


def test_a_pdf_that_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extraction, "SECONDS", 0)
    assert "more than 0 seconds" in tried("a.pdf", SAMPLES["a.pdf"])


def test_depth_is_bounded() -> None:
    for depth in (230, 5000, 1_000_000):
        assert tried("a.docx", archive({"word/document.xml": "<x>" * depth + "</x>" * depth}))
        assert tried("a.json", b"[" * depth + b"]" * depth)
    groups = "<w:ins>" * 150 + run("bonjour") + "</w:ins>" * 150
    assert not tried("a.docx", docx(f"<w:p>{groups}</w:p>"))
    begin, separate, end = (f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("begin", "separate", "end"))
    opened = f"{begin}<w:r><w:instrText>HYPERLINK</w:instrText></w:r>{separate}"
    assert not tried("a.docx", docx(f"<w:p>{opened * 3000}{run('bonjour')}{end * 3000}</w:p>"))


SLOW = {
    "a.md": ["[" , "]", "](", "*", "**a ", "_a", "`", "``a`", "<a ", "<!--", "$a", "![", "[a](", "&", "\\", "|", "> ", "- ", "a\n", "#", " ", "\t", "---\n", "a  \n", "a|b\n-|-\n", "[^1", "~~~\n", "<div>\n"],
    "a.srt": ["00:00:01,000 --> 00:00:02,000\na\n\n", "<", "<a", "<a>", "{\\", "00:00:01,000 --> 00:00:02,000\n- a\n", "\n", " "],
    "a.po": ['msgid "a"\nmsgstr ""\n', '"', 'msgid "\\"', 'msgid ""\n""\n', "\\", "msgid "],
    "a.json": ['"', '\\"', "[1,", '{"a":', "[],"],
    "a.csv": ['"', '""', "a,", "\n", '"a"b,', '\n"a,'],
    "a.html": ["<a ", "<b>x", "<!--", "<svg>", "&", "a b. "],
    "a.txt": ["a. ", "http://", "\n", "{", "x@"],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_time_grows_as_the_text_does(name: str) -> None:
    head = {"a.csv": "texte\n", "a.srt": "00:00:01,000 --> 00:00:02,000\n", "a.md": "a "}.get(name, "")

    def seconds(unit: str, size: int) -> float:
        content = (head + unit * (size // len(unit))).encode()
        start = time.process_time()
        tried(name, content)
        return time.process_time() - start

    for unit in SLOW[name]:
        small, large = seconds(unit, 20_000), seconds(unit, 160_000)
        assert large < 3 * 8 * small + 1.0, f"{unit!r}: {small:.2f} s, then {large:.2f} s"


@pytest.mark.slow
def test_time_grows_as_a_paragraph_does() -> None:
    begin, end = (f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("begin", "end"))
    bodies = [
        begin,
        end,
        begin + end,
        run("a b "),
        run("a", "<w:b/>") + run("b"),
        "<w:r><w:tab/></w:r>",
        "<w:bookmarkStart/>",
        "<w:ins></w:ins>",
    ]

    def seconds(body: str, count: int) -> float:
        content = docx(f"<w:p>{run('mot')}{body * count}</w:p>")
        start = time.process_time()
        tried("a.docx", content)
        return time.process_time() - start

    for body in bodies:
        small, large = seconds(body, 500), seconds(body, 4000)
        assert large < 3 * 8 * small + 1.0, f"{body!r}: {small:.2f} s, then {large:.2f} s"
