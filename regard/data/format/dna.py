"""DNA in the UCI format, `CLASS, name, sequence` per line: to classify, or with the splice junctions tagged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from regard.data.format._base import Example, Format, Sample
from regard.data.format._lines import numbered_lines
from regard.errors import UserError

__all__ = ["Dna"]

IUPAC = "ACGTRYSWKMBDHVN"
"""The four bases and the IUPAC codes for ambiguous ones."""
OUTSIDE = "O"


class Dna(Format):
    """Example(sequence, class). Of duplicate sequences only the first is kept, so that no two folds share one.

    With `mark`, Example(letters, tags). In the data every junction is at the centre of its window; so that its position
    must be found, each window is inserted at a random point of a window of class `none`. The base after the junction is
    tagged with the class, all others `O`. No window is used twice. The remaining windows of class `none` are joined in
    pairs and have no junction.
    """

    def __init__(self, mark: bool = False, none: str = "N", seed: int = 1) -> None:
        if seed < 0:
            raise UserError(f"data.format.seed: wants 0 or more, not {seed}")
        self.mark, self.none, self.seed = mark, none, seed

    @classmethod
    def sample(cls) -> Sample:
        text = b"EI, one, ACGT\nN, two, ttga\n"
        return Sample({"splice.data": text}, [Example("ACGT", "EI"), Example("TTGA", "N")])

    def read(self, files: Sequence[Path], part: str) -> list[Example]:
        classes: dict[str, str] = {}
        for file in files:
            for sequence, label in _read(file):
                classes.setdefault(sequence, label)
        examples = [Example(sequence, label) for sequence, label in classes.items()]
        return self._marked(examples) if self.mark else examples

    def _marked(self, examples: list[Example]) -> list[Example]:
        random = np.random.default_rng(self.seed)
        plain = [e.input for e in examples if e.target == self.none]
        junctions = [e for e in examples if e.target != self.none]
        if len(plain) < len(junctions):
            raise UserError(
                f"data.format.mark: {len(junctions)} junctions need as many sequences of class '{self.none}' around "
                f"them, but there are {len(plain)}; say with none = ... which class has no junction"
            )
        around = [plain[i] for i in random.permutation(len(plain))]
        marked = []
        for window, label in junctions:
            outer = around.pop()
            cut = int(random.integers(len(outer) + 1))
            tags = [OUTSIDE] * (len(outer) + len(window))
            tags[cut + len(window) // 2] = label
            marked.append(Example(list(outer[:cut] + window + outer[cut:]), tags))
        for one, other in zip(around[::2], around[1::2]):
            marked.append(Example(list(one + other), [OUTSIDE] * (len(one) + len(other))))
        return marked


def _read(file: Path) -> Iterator[tuple[str, str]]:
    for number, line in numbered_lines(file):
        if not line.strip():
            continue
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != 3 or not cells[0] or not cells[2]:
            raise UserError(f"{file}, line {number}: wants 'CLASS, name, sequence', has {len(cells)} part(s)")
        sequence = cells[2].upper()
        for position, letter in enumerate(sequence, 1):
            if letter not in IUPAC:
                raise UserError(
                    f"{file}, line {number}: '{letter}' at position {position} of the sequence is no letter of DNA; "
                    f"allowed are {', '.join(IUPAC)}"
                )
        yield sequence, cells[0]
