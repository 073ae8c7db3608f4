"""From three sentences to tokens, a vocabulary and the co-occurrence matrix.

Compares the package's counts, which `regard vectors train` uses, with the matrix on the slide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from regard.data.tokenizer.word import Word
from regard.data.vectors.counts import co_occurrence, numbered, words_and_marks
from regard.lab._drawing import PALETTE, panels
from regard.lab._experiment import Experiment, Numbers, Setting, Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["CoOccurrenceMatrix"]

SENTENCES = ("I like deep learning.", "I like NLP.", "I enjoy flying.")
WORDS = ("I", "like", "enjoy", "deep", "learning", "NLP", "flying", ".")
"""In the order of the slide."""
SLIDE = (
    (0, 2, 1, 0, 0, 0, 0, 0),
    (2, 0, 0, 1, 0, 1, 0, 0),
    (1, 0, 0, 0, 0, 0, 1, 0),
    (0, 1, 0, 0, 1, 0, 0, 0),
    (0, 0, 0, 1, 0, 0, 0, 1),
    (0, 1, 0, 0, 0, 0, 0, 1),
    (0, 0, 1, 0, 0, 0, 0, 1),
    (0, 0, 0, 0, 1, 1, 1, 0),
)


class CoOccurrenceMatrix(Experiment):
    title = "Co-occurrence"
    claim = (
        'The tokens, vocabulary and co-occurrence matrix of "I like deep learning. I like NLP. I enjoy flying." are '
        "those of the lecture."
    )
    lecture = "F5, F6"
    threshold = (
        "There are 13 tokens, of which 8 are different, and with a window of 1 to each side all 64 entries of the "
        "matrix are those of the lecture (I and like 2, I and enjoy 1, ...); with a window of 2 (the control) some are "
        "not."
    )
    code = ("regard.data.tokenizer.word.Word.encode", "regard.data.vectors.counts.co_occurrence")

    def run(self, size: str, setting: Setting) -> Numbers:
        tokenizer = Word.train(SENTENCES, seed=setting.seed)
        tokens = [tokenizer.encode(sentence) for sentence in SENTENCES]
        return {
            "tokens": [[surface.strip() for surface in tokenizer.surfaces(ids)] for ids in tokens],
            "ids": tokens,
            "vocabulary": [surface.strip() for surface in tokenizer.surfaces(range(4, len(tokenizer)))],
            "words": WORDS,
            "windows": {str(window): counted(window) for window in (1, 2)},
        }

    def table(self, numbers: Numbers) -> list[list[str]]:
        words = numbers["words"]
        rows = [["window 1", *words]]
        for word, row in zip(words, numbers["windows"]["1"]):
            rows.append([word, *(f"{count:g}" for count in row)])
        return rows

    def verdict(self, numbers: Numbers) -> Verdict:
        tokens = [token for sentence in numbers["tokens"] for token in sentence]
        vocabulary = set(numbers["vocabulary"])
        right, control = (_differences(numbers["windows"][window]) for window in ("1", "2"))
        same = len(tokens) == 13 and len(vocabulary) == 8 and vocabulary == set(tokens) == set(WORDS)
        return Verdict(
            same and right == 0 < control,
            f"{len(tokens)} tokens, {len(vocabulary)} different ones, and {64 - right} of 64 entries as in the "
            f"lecture; with a window of 2 {control} entries are others",
        )

    def figure(self, numbers: Numbers) -> Figure:
        figure, (axes,) = panels(width=5.4, height=4.8)
        counts = numbers["windows"]["1"]
        axes.imshow(counts, cmap="Purples", vmin=0, vmax=3)
        for i, row in enumerate(counts):
            for j, count in enumerate(row):
                colour = "white" if count >= 2 else PALETTE[0] if count else "#c9c5d6"
                axes.annotate(f"{count:g}", (j, i), ha="center", va="center", color=colour)
        axes.set_xticks(range(len(numbers["words"])), numbers["words"])
        axes.set_yticks(range(len(numbers["words"])), numbers["words"])
        axes.xaxis.tick_top()
        axes.grid(visible=False)
        axes.set(title="How often two words stand side by side")
        return figure


def counted(window: int) -> list[list[float]]:
    """The matrix of the three sentences in the word order of the slide; every pair in the window counts 1."""
    found = co_occurrence(numbered(SENTENCES, words_and_marks), window, by_distance=False)
    order = [found.words.index(word) for word in WORDS]
    return found.matrix()[np.ix_(order, order)].tolist()


def _differences(counts: list[list[float]]) -> int:
    return sum(one != other for row, wanted in zip(counts, SLIDE) for one, other in zip(row, wanted))
