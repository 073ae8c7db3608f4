"""S5: the server never opens an archive, whatever its name."""

from __future__ import annotations

import ast
import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

import regard
from regard.data.picture import decode_picture
from regard.errors import UserError

FOLDER = Path(regard.__file__).parent / "serving"


def zipped(name: str, size: int = 10) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, b"\0" * size)
        archive.writestr("twice", "a")
    return out.getvalue()


def tarred(name: str, link: str = "") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        entry = tarfile.TarInfo(name)
        if link:
            entry.type, entry.linkname = tarfile.SYMTYPE, link
        archive.addfile(entry)
    return out.getvalue()


@pytest.mark.parametrize(
    "content",
    [zipped("../../outside"), zipped("bomb", 10_000_000), tarred("/absolute"), tarred("a", "/etc/passwd")],
    ids=["traversal", "bomb", "absolute", "link"],
)
def test_S5_an_archive_is_no_picture(content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for sent in (content, gzip.compress(content)):
        with pytest.raises(UserError):
            decode_picture(sent, "what was sent")
    assert not list(tmp_path.iterdir())


def test_S5_nothing_in_the_service_can_unpack_anything() -> None:
    unpack = {"zipfile", "tarfile", "shutil", "gzip", "bz2", "lzma", "zlib", "zstandard", "tempfile"}
    for path in FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not unpack & {name.partition(".")[0] for name in names}, path
