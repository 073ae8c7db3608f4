"""The table of recipes in docs/measured.md, from recipes/measured.json: `python bench/recipes.py` writes it between its marks."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # as a script it finds regard, too

from regard.cli.recipes import entries

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- recipes -->", "<!-- /recipes -->"


def markdown_table() -> str:
    """Every shipped recipe: what it does, on what data, its size, its score and what that took."""
    lines = ["| recipe | task | data | parameters | score | trained in |", "|---|---|---|---:|---|---|"]
    for entry in entries().values():
        told = entry.measured
        cells = [f"`{entry.name}`", entry.task, entry.data, told.size, told.result, told.effort]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines)


def with_table(page: str) -> str:
    """The page with the table of today between its marks; a page without marks stays as it is."""
    if BEGIN not in page or END not in page:
        return page
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{markdown_table()}\n{END}{rest.partition(END)[2]}"


def main() -> int:
    target = ROOT / "docs" / "measured.md"
    page = target.read_text(encoding="utf-8")
    if with_table(page) == page:
        print(markdown_table())
    else:
        target.write_text(with_table(page), encoding="utf-8")
        print(f"wrote {target}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
