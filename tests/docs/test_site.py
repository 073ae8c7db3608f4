"""The documentation as a whole: links lead somewhere, navigation reaches every page, and the site builds strictly.

`make docs` runs the same build. Its pages must not fetch anything from another host when they are opened.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from docs.test_snippets import FENCE, ROOT

import regard

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)|<img[^>]* src=\"([^\"]+)\"")
TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```$", re.M | re.S)


def prose(page: Path) -> str:
    """A page without its code."""
    return re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text(encoding="utf-8")))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and MyST make them."""
    headings = re.findall(r"^#{1,6} (.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(page: Path) -> list[str]:
    found = []
    for link in ("".join(both) for both in LINK.findall(prose(page))):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        folder = target.is_dir() and page.is_relative_to(DOCS)  # the site has no page for it
        if not target.exists() or folder or (anchor and anchor not in anchors(target)):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    assert not broken(page)


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A b\n[x](gone.md) [y](#a-b) [z](#c) `[code](nowhere.md)`\n```text\n[t](nowhere.md)\n```\n")
    assert broken(page) == ["gone.md", "#c"]


def listed(page: Path) -> list[Path]:
    """The pages that a page's toctrees list, in order."""
    found: list[Path] = []
    for block in TOCTREE.findall(page.read_text(encoding="utf-8")):
        names = [line for line in block.splitlines() if line and not line.startswith(":")]
        for name in names:  # `name`, or `Title <name>`
            name = name.rpartition("<")[2].removesuffix(">")
            found += sorted(page.parent.glob(f"{name}.md"))
    return found


def test_navigation_reaches_every_page() -> None:
    reached, waiting = set(), [DOCS / "index.md"]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        waiting += [below for below in listed(page) if below not in reached]
    assert reached == set(PAGES) - {ROOT / "README.md"}


def test_the_readme_is_short_and_leads_to_the_documentation() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 155
    assert all(f"docs/{name}.md" in text for name in ("training", "serving", "inspecting", "measured", "contributing"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sphinx")
    place = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--quiet", "--builder", "html", DOCS, place]
    done = subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return place


FETCHED = re.compile(
    r"<(?:script|img|iframe|source|video|audio|embed)\b[^>]*\bsrc=\"((?:https?:)?//[^\"]*)\""
    r"|<link\b[^>]*\bhref=\"((?:https?:)?//[^\"]*)\""
    r"|(?:@import\s+|url\()[\"']?((?:https?:)?//[^\"')]*)"
)


def test_the_site_builds_without_warnings_and_fetches_nothing(site: Path) -> None:
    files = [path for path in site.rglob("*") if path.suffix in (".html", ".css")]
    assert len(files) > len(PAGES)
    fetched = {path.name: hit[0] for path in files for hit in FETCHED.finditer(path.read_text(encoding="utf-8"))}
    assert not fetched


def test_a_font_from_elsewhere_would_be_found() -> None:
    for bad in ('<link href="https://x/y.css">', "@import 'https://x'", "url(//x/y)", '<script async src="//x/y.js">'):
        assert FETCHED.search(bad)
    assert not FETCHED.search('<a href="https://x"> url("data:image/svg+xml;http://") <link href="_static/a.css">')


def test_search_and_the_api_reference_know_every_public_name(site: Path) -> None:
    index, reference = ((site / name).read_text(encoding="utf-8") for name in ("searchindex.js", "api.html"))
    for name in regard._HOMES:
        assert f'id="regard.{name}"' in reference and name.lower() in index, name
    assert "softmax" in index
