"""Writes the slowest tests of a run into docs/test-all.md, from the XML that `pytest --junitxml FILE` writes.

make slowest                                  runs the tests and writes the table
python tools/slowest_tests.py FILE [FILE ...] of runs in several parts
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/test-all.md"
BEGIN, END = "<!-- slowest -->", "<!-- /slowest -->"


class Test(NamedTuple):
    seconds: float
    """Of set-up, test and tear-down; the first test of a file also pays for what the file shares."""
    name: str


def read(files: Iterable[Path]) -> list[Test]:
    """The tests of a run, the slowest first."""
    found = []
    for file in files:
        for case in ElementTree.parse(file).iter("testcase"):
            path = case.get("classname", "").replace(".", "/")
            found.append(Test(float(case.get("time", 0)), f"{path}.py::{case.get('name')}"))
    return sorted(found, reverse=True)


def table(tests: Sequence[Test], count: int) -> str:
    """The first `count` tests and what they take of the whole, in Markdown."""
    total = sum(test.seconds for test in tests)
    share = sum(test.seconds for test in tests[:count]) / total if total else 0.0
    rows = [f"| {test.seconds:.1f} | `{test.name.replace('|', chr(92) + '|')}` |" for test in tests[:count]]
    summary = f"{len(tests):,} tests took {total:,.0f} seconds in all; these {len(rows)} took {share:.0%} of them."
    return "\n".join([summary, "", "| seconds | test |", "|---:|---|", *rows])


def with_table(page: str, text: str) -> str:
    before, _, rest = page.partition(BEGIN)
    inside, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"{PAGE} has no {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, help="what pytest --junitxml wrote")
    parser.add_argument("--count", type=int, default=20)
    options = parser.parse_args(arguments)
    text = table(read(options.files), options.count)
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), text), encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
