"""docs/glossary.md: words in order, each used in the file that is named for it; renamed ones with files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs.test_snippets import ROOT

PAGE = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")


def table(name: str) -> list[list[str]]:
    lines = PAGE.partition(f"<!-- {name} -->")[2].partition(f"<!-- /{name} -->")[0].strip().splitlines()
    return [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines[2:]]


WORDS = table("words")


def used(word: str, path: Path) -> bool:
    """Whether every word of a term occurs in a file or, for a package, in its folder's files."""
    files = path.parent.glob("*.py") if path.name == "__init__.py" else [path]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files).lower()
    return all(part in text for part in word.lower().split())


@pytest.mark.parametrize("row", WORDS, ids=[row[0] for row in WORDS])
def test_a_word_is_used_in_its_file(row: list[str]) -> None:
    word, meaning, _, link = row
    found = re.fullmatch(r"\[[\w./]+\]\((\S+)\)", link)
    assert meaning and found
    assert used(word, (ROOT / "docs" / found[1]).resolve())


def test_words_are_in_order_and_stand_once() -> None:
    words = [row[0] for row in WORDS]
    assert len(words) > 30 and words == sorted(set(words))


@pytest.mark.parametrize("row", table("renamed"), ids=lambda row: row[0])
def test_a_renamed_word_has_a_new_one_and_a_file_that_exists(row: list[str]) -> None:
    before, now, file = row
    assert before and now and before != now
    for name in re.findall(r"[\w./-]+\.(?:py|js|toml|md)\b", file):
        assert (ROOT / name).exists() or (ROOT / "regard" / name).exists(), name
