"""Lines of a page: runs of text on one baseline. What every page has above and below its text is dropped."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from regard.documents.pdf.runs import Run

WIDTH = 0.5
"""Of a letter, on average, as a share of its size: fonts need not state their widths."""
GAP, DOUBT = 2.0, 0.15
"""A space between the cells of a table is wider than two letters' height, and than the error of that estimate."""
BASELINE = 0.45
"""How far an index or exponent is from the baseline, as a share of the size."""
MAX_CELLS = 40
"""Word's tables have 63 columns at most."""
_NUMBER = re.compile(r"\d+|\b[ivxlc]+\b", re.IGNORECASE)
BULLETS = "•◦▪▫‣●○■□◆◇✓➢➤→–—*·-"
_LABEL = re.compile(rf"\s*([{re.escape(BULLETS)}\uf000-\uf0ff]|\(?(?:\d{{1,3}}|[a-z]|[ivx]{{1,5}})[.)])\s*")


@dataclass
class Line:
    page: int
    cells: list[list[Run]]
    """More than one where wide spaces are between."""
    label: str = ""
    """A bullet or a number before the text."""

    @property
    def runs(self) -> list[Run]:
        return [run for cell in self.cells for run in cell]

    @property
    def text(self) -> str:
        return " ".join("".join(run.text for run in self.runs).split())

    @property
    def x(self) -> float:
        return self.cells[0][0].x

    @property
    def y(self) -> float:
        return max(self.runs, key=lambda run: (run.size, len(run.text))).y

    @property
    def size(self) -> float:
        """Of most of its letters."""
        sizes: Counter[float] = Counter()
        for run in self.runs:
            sizes[round(2 * run.size) / 2] += len(run.text.strip())
        return sizes.most_common(1)[0][0]


def lines_of(pages: Iterable[Sequence[Run]]) -> list[Line]:
    """The lines of all pages in the order of the text, without headers and footers."""
    found = [_lines(number, runs) for number, runs in enumerate(pages)]
    repeated = _repeated(found)
    return [line for page in found for line in page if (line.text, line.page) not in repeated]


def _lines(page: int, runs: Sequence[Run]) -> list[Line]:
    groups: list[list[Run]] = []
    for run in runs:
        last = groups[-1] if groups else None
        if last and abs(run.y - last[0].y) < BASELINE * max(run.size, last[0].size) and _follows(last, run):
            last.append(run)
        else:
            groups.append([run])
    return [_line(page, group) for group in groups]


def _follows(before: Sequence[Run], run: Run) -> bool:
    """Whether it goes on to the right; a script from right to left may be drawn in any order."""
    return run.x > before[-1].x or _is_rtl(run.text) or any(_is_rtl(one.text) for one in before)


def _line(page: int, runs: list[Run]) -> Line:
    if sum(len(run.text) for run in runs if _is_rtl(run.text)) > sum(len(run.text) for run in runs) / 2:
        runs = [run._replace(text=f" {run.text.strip()} ") for run in sorted(runs, key=lambda run: -run.x)]
        return Line(page, [runs])
    cells: list[list[Run]] = [[]]
    end = doubt = 0.0
    for run in runs:
        if cells[-1] and run.x - end > GAP * run.size + doubt:
            cells.append([])
        cells[-1].append(run)
        width = WIDTH * run.size * len(run.text)
        end, doubt = run.x + width, DOUBT * width
    line = Line(page, cells if len(cells) <= MAX_CELLS else [runs])
    label = _LABEL.match("".join(run.text for run in runs[:2]))
    if label and (rest := _without(runs, label.end())) and (label[0][-1:].isspace() or rest[0].x > runs[0].x):
        line.label = "•" if len(label[1]) == 1 and not label[1].isalnum() else label[1]
        line.cells = [rest] if len(line.cells) == 1 else [_without(line.cells[0], label.end()), *line.cells[1:]]
        line.cells = [cell for cell in line.cells if cell]
    return line


def _without(runs: Sequence[Run], characters: int) -> list[Run]:
    found = []
    for run in runs:
        rest = run.text[characters:]
        characters -= min(characters, len(run.text))
        if rest.strip():
            found.append(run._replace(text=rest))
    return found


def _is_rtl(text: str) -> bool:
    return any(unicodedata.bidirectional(character) in ("R", "AL") for character in text)


def _repeated(pages: Sequence[Sequence[Line]]) -> set[tuple[str, int]]:
    """The first and last lines that other pages have at the same height, but for numbers in them."""
    seen: Counter[tuple[str, int]] = Counter()
    candidates = []
    for page in pages:
        order = sorted(page, key=lambda line: line.y)
        for line in {id(line): line for line in (*order[:2], *order[-2:])}.values():
            key = (_NUMBER.sub("#", line.label + line.text), round(line.y / 4))
            seen[key] += 1
            candidates.append((key, line))
    return {(line.text, line.page) for key, line in candidates if seen[key] > 1}
