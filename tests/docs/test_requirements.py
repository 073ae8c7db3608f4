"""docs/requirements.md lists the requirements whose ids tests carry: none is missing there, none is without a test."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ID = re.compile(r"(?<![A-Za-z0-9])[RSV][1-9]\d?(?![A-Za-z0-9])")


def listed() -> list[str]:
    page = (ROOT / "docs/requirements.md").read_text(encoding="utf-8")
    return re.findall(r"^\| ([A-Z]\d+) \|", page, re.M)


def carried(source: str) -> set[str]:
    """The ids in names of functions, in docstrings and in comments; other strings may hold anything."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            found.update(ID.findall(ast.get_docstring(node) or ""))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.update(ID.findall(node.name.replace("_", " ")))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            found.update(ID.findall(token.string))
    return found


@pytest.mark.parametrize(
    "source, ids",
    [
        ("def test_R13_asked_too_much(): pass", {"R13"}),
        ('"""Files (R5), and S1."""\nx = "S2"  # V3: a comment', {"R5", "S1", "V3"}),
        ("async def test_PR1(): pass\n# F32, XS1, R123", set()),
    ],
)
def test_ids_are_found(source: str, ids: set[str]) -> None:
    assert carried(source) == ids


def test_tests_and_page_have_the_same_ids() -> None:
    ids = listed()
    assert len(ids) == len(set(ids)) and ids, "each once"
    found = {path: carried(path.read_text(encoding="utf-8")) for path in (ROOT / "tests").rglob("*.py")}
    unknown = {path.name: names - set(ids) for path, names in found.items() if names - set(ids)}
    assert not unknown, "docs/requirements.md does not list them"
    assert not set(ids) - set().union(*found.values()), "no test carries them"
