"""Writes the table of recipes from recipes/measured.json into the page that has its marks."""

from __future__ import annotations

from pathlib import Path

from regard.cli.recipes import entries

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "docs/measured.md"]
BEGIN, END = "<!-- recipes -->", "<!-- /recipes -->"


def markdown_table() -> str:
    """Every shipped recipe with its task, data, number of parameters, score and training time."""
    lines = ["| recipe | task | data | parameters | score | trained in |", "|---|---|---|---:|---|---|"]
    for entry in entries().values():
        measured = entry.measured
        cells = [f"`{entry.name}`", entry.task, entry.data, measured.size, measured.result, measured.effort]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines)


def with_table(page: str) -> str:
    """The page with the current table between its marks; a page without marks stays as it is."""
    if BEGIN not in page or END not in page:
        return page
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{markdown_table()}\n{END}{rest.partition(END)[2]}"


def pages() -> list[Path]:
    """The pages that hold the table."""
    return [path for path in PAGES if path.exists() and BEGIN in path.read_text(encoding="utf-8")]


def main() -> None:
    for path in pages():
        path.write_text(with_table(path.read_text(encoding="utf-8")), encoding="utf-8")
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
