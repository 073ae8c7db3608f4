"""Every `python` block of the README and of docs/ is run, in order, one page at a time.

A `text` block right after it is what it must print. A block that begins with `# not run: needs a GPU` or
`# not run: needs a data set` is left out, for these two reasons only. Other blocks (console, toml) are not run.
"""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import pytest
from interchange import tiny_marian

from tests.interchange import made_encoders, made_gguf, made_language_models

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    if path.exists() and path.name not in ("serving.md", "bulk.md")  # these need a server and a cluster:
    # test_serving.py, ray/test_on_ray.py
)

FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<body>.*?)^(?P=indent)```[ ]*$", re.M | re.S)
NOT_RUN = re.compile(r"# not run: needs a (GPU|data set)\b")


@dataclass
class Snippet:
    code: str
    line: int
    expected: str | None


def snippets(page: str) -> list[Snippet]:
    blocks = list(FENCE.finditer(page))
    found = []
    for block, after in zip_longest(blocks, blocks[1:]):
        if block["language"] != "python":
            continue
        adjacent = after is not None and after["language"] == "text" and not page[block.end() : after.start()].strip()
        expected = _body(after) if after is not None and adjacent else None
        found.append(Snippet(_body(block), page.count("\n", 0, block.start("body")), expected))
    return found


def _body(block: re.Match[str]) -> str:
    return re.sub(f"^{block['indent']}", "", block["body"], flags=re.M)


def run(page: str, name: str) -> None:
    """Runs a page's snippets in one namespace, in order."""
    names: dict[str, object] = {"__name__": "__main__"}
    for snippet in snippets(page):
        where = f"{name}:{snippet.line + 1}"
        if snippet.code.startswith("# not run"):
            assert NOT_RUN.match(snippet.code), f"{where}: a block is left out only for a GPU or a data set"
            continue
        printed = io.StringIO()
        # The empty lines before make a traceback point into the page.
        code = compile("\n" * snippet.line + snippet.code, name, "exec")
        with contextlib.redirect_stdout(printed):
            exec(code, names)
        if snippet.expected is not None:
            assert printed.getvalue().rstrip("\n") == snippet.expected.rstrip("\n"), f"{where} prints something else"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # what a snippet writes is not left in the repository
    if page.name == "importing.md":
        tiny_marian.write(tmp_path / "opus-mt-de-en")  # the folder that its snippets import
        (tmp_path / "law.de").write_text("das alte Haus\ndie Straße\nder Garten\nein Buch\n" * 3)
        (tmp_path / "law.en").write_text("the old house\nthe street\nthe garden\na book\n" * 3)
    if page.name == "language-models.md":  # the models that its snippets import
        made_language_models.gpt2(tmp_path / "gpt2")
        made_gguf.write_chat(tmp_path / "tiny-chat.gguf")
    if page.name == "encoders.md":
        made_encoders.make(tmp_path / "hf-bert", made_encoders.VARIANTS["bert"])
        made_encoders.make(tmp_path / "hf-tagger", made_encoders.VARIANTS["bert tagger"])
    run(page.read_text(encoding="utf-8"), page.name)


def page_of(*blocks: tuple[str, str]) -> str:
    return "\n\n".join(f"Words.\n\n```{language}\n{body}\n```" for language, body in blocks)


def test_blocks_share_names_and_print_what_follows() -> None:
    page = "```python\nx = 1\n```\n\n```python\nprint(x + 1)\n```\n```text\n2\n```\n"
    assert [snippet.expected for snippet in snippets(page)] == [None, "2\n"]
    run(page, "page")
    run("- item\n\n  ```python\n  if True:\n      print('in')\n  ```\n\n  ```text\n  in\n  ```\n", "page")


def test_text_after_words_is_not_an_output() -> None:
    run(page_of(("python", "print(1)"), ("text", "2")), "page")


def test_other_blocks_are_not_run() -> None:
    run("no blocks", "page")
    run(page_of(("console", "$ false"), ("toml", "x ="), ("", "raise")), "page")


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("```python\nprint(1)\n```\n```text\n2\n```\n", "page:2 prints something else"),
        ("```python\nprint(' 1')\n```\n```text\n1\n```\n", "prints something else"),
        ("```python\n# not run: takes long\nprint(1)\n```\n", "only for a GPU"),
        ("```python\n# not run\nprint(1)\n```\n", "only for a GPU"),
        ("```python\nassert False, 'broken'\n```\n", "broken"),
    ],
)
def test_what_must_fail_fails(page: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        run(page, "page")


def test_good_reasons_are_taken() -> None:
    run("```python\n# not run: needs a GPU\n1 / 0\n```\n\n```python\n# not run: needs a data set\n1 / 0\n```\n", "page")
