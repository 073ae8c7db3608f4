"""docs/extending: each page is followed as a reader would, in a package of their own beside Regard.

A `python` block that begins with a file's name is written to that file, the `toml` blocks become the package's entry
points, all other `python` blocks are run, and so are `regard` commands of `console` blocks.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from docs.test_snippets import FENCE, ROOT, run

from regard import registry

FOLDER = ROOT / "docs" / "extending"
PAGES = sorted(FOLDER.glob("*.md"))
FILE = re.compile(r"# (my_parts/\w+\.py)\n")


def install(page: str, place: Path) -> int:
    """Writes the package that a page describes, as pip would install it; the number of its entry points."""
    groups: dict[str, dict[str, str]] = {}
    for block in FENCE.finditer(page):
        if block["language"] == "python" and (name := FILE.match(block["body"])):
            (place / name[1]).parent.mkdir(exist_ok=True)
            (place / name[1]).write_text(block["body"], encoding="utf-8")
        if block["language"] == "toml":
            groups |= tomllib.loads(block["body"])["project"]["entry-points"]
    about = place / "my_parts-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my_parts\nVersion: 1.0\n")
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()) for group, points in groups.items()]
    (about / "entry_points.txt").write_text("\n".join(lines))
    return sum(map(len, groups.values()))


def without_files(page: str) -> str:
    """The page with the blocks that are files marked as not to be run, on the same lines."""
    return FENCE.sub(lambda b: b[0].replace("```python", "```file", 1) if FILE.match(b["body"]) else b[0], page)


def commands(page: str) -> list[str]:
    blocks = [block["body"] for block in FENCE.finditer(page) if block["language"] == "console"]
    return re.findall(r"^\$ (regard .*)$", "\n".join(blocks), re.M)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    registry._elsewhere.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "my_parts"]:
        del sys.modules[name]


@pytest.mark.parametrize("path", [page for page in PAGES if page.stem != "index"], ids=lambda path: path.stem)
def test_page(path: Path, place: Path) -> None:
    page = path.read_text(encoding="utf-8")
    added = install(page, place)
    assert bool(added) == (path.stem != "language")
    registry._elsewhere.cache_clear()
    run(without_files(page), path.name)
    for command in commands(page):
        words = command.replace("regard", shlex.quote(sys.executable) + " -m regard", 1)
        environment = {**os.environ, "PYTHONPATH": f"{place}{os.pathsep}{ROOT}"}
        done = subprocess.run(words, shell=True, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}: {done.stderr}"


def test_the_index_names_every_page_and_every_family_it_lists_exists() -> None:
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    assert {page.name for page in PAGES} - {"index.md"} == set(re.findall(r"\[page\]\(([\w-]+\.md)\)", index))
    for group in re.findall(r"`(regard\.[\w.]+)`", index):
        assert registry.kinds(group.removeprefix("regard.").replace(".", "/")), group
