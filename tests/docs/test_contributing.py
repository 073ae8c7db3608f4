"""docs/contributing.md: the table "Where is ...?" names files that exist and what they define, four files at most."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from docs.test_snippets import ROOT

PAGE = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
TABLE = PAGE.partition("<!-- quiz -->")[2].partition("<!-- /quiz -->")[0]
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in TABLE.strip().splitlines()[2:]]
SUBJECTS = "softmax, smoothing, optimizer step, copying its cache, schedule, durable, request, int8, new task, click, CUDA graphs"


def defined(path: Path) -> set[str]:
    """The functions and classes that a file defines, at any depth."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".js":
        return set(re.findall(r"\b(?:function|class|const) (\w+)", text))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)}


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_an_answer_is_in_at_most_four_files(row: list[str]) -> None:
    found = re.findall(r"\[([\w./]+)\]\(\.\./regard/\1\)((?: `\w+`)+)", row[1])
    assert 1 <= len(found) <= 4 and len(found) == row[1].count("](")
    for name, symbols in found:
        assert set(re.findall(r"\w+", symbols)) <= defined(ROOT / "regard" / name), name


def test_every_subject_is_there_once() -> None:
    for subject in SUBJECTS.split(", "):
        assert sum(subject in question for question, *_ in ROWS) == 1, subject


def test_a_name_that_is_not_defined_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f():\n    class G: ...\nx = 'h'\n")
    assert defined(tmp_path / "a.py") == {"f", "G"}
