"""What was seen of one translation, as plain data: names, words and numbers, and nothing of how they were found.

Pictures are made of this alone, and `tree()` is what a JSON file holds: the same numbers, to the last bit. Arrays are
float32, whose shortest decimal form is exact.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from regard.inspection import alignment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.inspection.views import View

PARTS = ("attention", "matrices", "gates", "ponder", "positions", "search")
"""What a file may leave out."""
CROSS, READING, WRITING = "cross", "source", "target"
"""Which attention: of the target to the source, of the source to itself, of the target to itself."""


@dataclass
class Side:
    """A text, and the tokens and words that it was cut into."""

    text: str
    tokens: list[str]
    """As the model has them, END last where there is one."""
    words: list[str]
    """As they stand in the text, between spaces."""
    word_of: list[int]
    """The word of each token; END, which is last, has none and is not in this list."""

    @property
    def direction(self) -> str:
        """`rtl` where the first letter that has a direction is written from right to left; how a page's `auto` does."""
        kinds = (unicodedata.bidirectional(letter) for letter in self.text)
        return "rtl" if next((kind for kind in kinds if kind in ("L", "R", "AL")), "L") != "L" else "ltr"


@dataclass
class Attention:
    """The heads of one attention layer. Row t is where query t looked, and a row sums to one."""

    path: str
    """The module, as the model names it."""
    kind: str
    """CROSS, READING or WRITING."""
    layer: int
    """From 0; where one layer is used again and again, which time it was."""
    weights: np.ndarray
    """(heads, queries, keys)"""


@dataclass
class Gates:
    """What a recurrent layer did at every token: its gates by name, then the state it came to."""

    path: str
    side: str
    """READING or WRITING: whose tokens."""
    layer: int
    backwards: bool
    values: dict[str, np.ndarray]
    """Each (tokens, units)."""


@dataclass
class Ponder:
    """How long a Universal Transformer thought about each token, and the weight of each of its steps."""

    path: str
    side: str
    times: np.ndarray
    shares: np.ndarray
    """(tokens, steps)"""


@dataclass
class Positions:
    """The vectors that say which position it is."""

    paths: list[str]
    """The modules that have these vectors."""
    kind: str
    values: np.ndarray
    """(positions, width)"""


@dataclass
class Branch:
    """A way that a search kept: one token more than its parent, which is a place in the list of the step before."""

    parent: int
    token: str
    log_probability: float
    chosen: bool
    """On the way to the translation that was chosen."""
    score: float | None = None
    """After the length penalty, of a way that ended here."""


@dataclass
class SearchStep:
    """What stayed open after a step, best first, and what ended in it and was among the best so far."""

    open: list[Branch]
    ended: list[Branch]


@dataclass
class Look:
    """One translation, seen from inside."""

    model: str
    source: Side
    target: Side
    read: list[str]
    """What the decoder had read last when it wrote each token of the target: the token before it, at first BEGIN."""
    probabilities: list[float]
    """How sure the model was of each token of the target, given those before it."""
    log_probability: float
    score: float
    finished: bool
    """False where the length limit cut it off: then there is no END."""
    attention: list[Attention] = field(default_factory=list)
    gates: list[Gates] = field(default_factory=list)
    ponder: list[Ponder] = field(default_factory=list)
    positions: list[Positions] = field(default_factory=list)
    beam: int = 1
    search: list[SearchStep] = field(default_factory=list)

    def of_kind(self, kind: str) -> list[Attention]:
        return [layer for layer in self.attention if layer.kind == kind]

    def queries(self, kind: str) -> list[str]:
        """The tokens at the rows of an attention: what was being written, or who looks among its own kind."""
        return {CROSS: self.target.tokens, READING: self.source.tokens, WRITING: self.read}[kind]

    def keys(self, kind: str) -> list[str]:
        """The tokens at its columns."""
        return self.read if kind == WRITING else self.source.tokens

    def token_matrix(self) -> np.ndarray:
        """Where each target token looked: (target tokens, source tokens), the mean of layers and heads."""
        layers = [torch.from_numpy(layer.weights)[None] for layer in self.of_kind(CROSS)]
        return alignment.average(layers)[0].numpy()

    def word_matrix(self) -> np.ndarray:
        """The same between words: summed over a source word's tokens, averaged over a target word's."""
        merged = alignment.word_matrix(torch.from_numpy(self.token_matrix()), self.target.word_of, self.source.word_of)
        # A word at the end may have no token of its own.
        found = np.zeros((len(self.target.words), len(self.source.words)), np.float32)
        found[: merged.shape[0], : merged.shape[1]] = merged.numpy()
        return found

    def tree(self, parts: Collection[str] = PARTS) -> dict[str, Any]:
        """All but the parts that are not asked for, in dicts and lists, with what is read from it: the two matrices."""
        kept = {one.name: getattr(self, one.name) for one in fields(self) if one.name in parts or one.name not in PARTS}
        found = plain(kept)
        for name in ("source", "target"):
            found[name]["direction"] = getattr(self, name).direction
        if "matrices" in parts and self.of_kind(CROSS):
            found["token_matrix"], found["word_matrix"] = plain(self.token_matrix()), plain(self.word_matrix())
        return found

    def json(self, parts: Collection[str] = PARTS) -> str:
        """The tree as a file holds it."""
        return json.dumps(self.tree(parts), ensure_ascii=True, allow_nan=False)

    def svg(self, view: str = "", **choice: Any) -> str:
        """One view's first picture (see `views.pictures`); by default the one that says most of this model."""
        return self._view(view, choice).pictures[0].svg()

    def figure(self, view: str = "", **choice: Any) -> Figure:
        """The same as a matplotlib figure."""
        return self._view(view, choice).pictures[0].figure()

    def html(self, view: str = "", **choice: Any) -> str:
        """A page by itself: all pictures of a view, and its values."""
        from regard.inspection.page import page

        shown = self._view(view, choice)
        return page(self, shown)

    def _repr_html_(self) -> str:
        from regard.inspection.page import framed

        return framed(self.html())

    def _view(self, name: str, choice: dict[str, Any]) -> View:
        from regard.inspection.views import view

        return view(self, name, **choice)


def plain(value: Any) -> Any:
    """Dataclasses and arrays as dicts and lists that JSON can hold: a number that is none becomes null."""
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, np.ndarray):
        return [plain(row) for row in value] if value.ndim > 1 else [number(one) for one in value]
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    return number(value) if isinstance(value, float) else value


def number(value: float | np.floating) -> float | None:
    """A float32 by its shortest decimal form, which reads back as the same float32; any other number as it is."""
    if not np.isfinite(value):
        return None
    single = np.float32(value)
    return float(str(single)) if float(single) == value else float(value)
