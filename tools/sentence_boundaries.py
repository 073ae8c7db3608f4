"""Measures the sentence splitter: joins lines of a corpus into paragraphs and counts which boundaries come back.

    python tools/sentence_boundaries.py test.de.gz ntrex128.en-es.tsv.gz#2 --show 20

Only lines that end in a stop are joined, ten to a paragraph: nothing marks the end of a headline. Recall is the share
of the lines' ends that are found, precision the share of what is found that is the end of a line. Lines that hold two
sentences count against precision.
"""

from __future__ import annotations

import argparse
import itertools
import re
from collections.abc import Callable, Iterable, Sequence

from regard.data.corpus.reading import read_lines
from regard.task._sentence_boundaries import sentences

PARAGRAPH = 10
ENDS_IN_STOP = re.compile(r"[.!?…؟۔][\s»“”\"')\]]*$")
Splitter = Callable[[str], Sequence[str]]


def lines_of(name: str, limit: int) -> list[str]:
    """The first lines that end in a stop, of a file or, after #, of a column of one."""
    texts = (" ".join(line.split()) for line in read_lines(name))
    return list(itertools.islice((text for text in texts if ENDS_IN_STOP.search(text)), limit))


def paragraphs(lines: Sequence[str]) -> Iterable[list[str]]:
    return (list(lines[start : start + PARAGRAPH]) for start in range(0, len(lines), PARAGRAPH))


def ends(parts: Iterable[str]) -> set[int]:
    """Where parts end, in letters without white space; the end of the last is none to find."""
    found, length = [], 0
    for part in parts:
        length += len("".join(part.split()))
        found.append(length)
    return set(found[:-1])


def measure(lines: Sequence[str], split: Splitter) -> tuple[float, float, list[str]]:
    """Recall, precision, and what was split or joined wrongly."""
    right = wanted = given = 0
    wrong: list[str] = []
    for group in paragraphs(lines):
        text = " ".join(group)
        true, found = ends(group), ends(split(text))
        right, wanted, given = right + len(true & found), wanted + len(true), given + len(found)
        bare = "".join(text.split())
        for what, places in (("missed", true - found), ("extra", found - true)):
            wrong += [f"{what}: {bare[max(0, at - 30) : at]} | {bare[at : at + 20]}" for at in sorted(places)]
    return right / max(wanted, 1), right / max(given, 1), wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE[#COLUMN]", help="text, one sentence a line; .gz and .xz too")
    parser.add_argument("--limit", type=int, default=3000, help="lines of each file (default 3000)")
    parser.add_argument("--show", type=int, default=0, help="show so many wrong boundaries of each file")
    options = parser.parse_args()
    print(f"{'file':40} {'lines':>6} {'recall':>7} {'precision':>9}")
    for name in options.files:
        lines = lines_of(name, options.limit)
        recall, precision, wrong = measure(lines, sentences)
        print(f"{name.rsplit('/', 1)[-1]:40} {len(lines):6} {100 * recall:6.1f} % {100 * precision:7.1f} %")
        step = max(1, len(wrong) // max(1, options.show))
        for one in wrong[::step][: options.show]:
            print(f"    {one}")


if __name__ == "__main__":
    main()
