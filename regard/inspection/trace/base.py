"""What was seen of a model at work, as plain data: names, words and numbers, and nothing of how they were found.

Pictures are made of this alone, and `tree()` is what a JSON file holds: the same numbers, to the last bit. Arrays are
float32, whose shortest decimal form is exact. `Shown` is what all kinds of looks have in common; look.py is that at a
translation.
"""

from __future__ import annotations

import json
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.errors import UserError, suggestion

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.inspection.draw.gradients import Gradients
    from regard.inspection.trace.arithmetic import Calculation

CROSS, READING, WRITING = "cross", "source", "target"
"""Which attention: of the target to the source, of the source to itself, of the target to itself."""
KINDS = {CROSS: "target to source", READING: "source to itself", WRITING: "target to itself"}


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
class Picture:
    """One drawing, made when it is asked for."""

    heading: str
    svg: Callable[[], str]
    figure: Callable[[], Figure]
    kind: str = ""
    """Whose heads it shows, where a page may show another of them in it."""
    layer: int = 0
    head: int = 0
    layers: int = 0
    heads: int = 0
    """How many of them there are to choose from."""


@dataclass
class View:
    """Pictures that belong together, the first of which stands for all where there is room for one."""

    name: str
    about: str
    """What one sees, in a sentence."""
    parts: tuple[str, ...]
    """What of the data it is drawn from."""
    pictures: list[Picture] = field(default_factory=list)


@dataclass
class Choice:
    """What a user may choose of a view."""

    layer: int | None = None
    head: int | None = None
    attention: str = CROSS
    tokens: bool = False
    position: int | None = None
    """Which query of an attention, or which step of the writing, from 0."""


@dataclass(kw_only=True, repr=False)
class Shown(ABC):
    """One input, and what a model did with it."""

    model: str
    attention: list[Attention] = field(default_factory=list)
    gates: list[Gates] = field(default_factory=list)
    ponder: list[Ponder] = field(default_factory=list)
    positions: list[Positions] = field(default_factory=list)
    gradients: list[Gradients] = field(default_factory=list)
    """Those that were asked for (`gradients_of`): each takes a pass of its own."""
    calculations: list[Calculation] = field(default_factory=list)
    """Of the head that was last asked for (`calculation_of`)."""

    def __post_init__(self) -> None:
        self.follow: Callable[[int], Gradients] | None = None
        """Finds the gradients of an output, where whoever made this look can."""
        self.calculate: Callable[[Shown, Choice], Calculation] | None = None
        """Follows the numbers of the head that was chosen, likewise."""

    def __repr__(self) -> str:
        """One line: what went in and came out, and the view to begin with. The numbers are in the attributes."""
        texts = " -> ".join(repr(_shortened(side.text)) for side in self.texts())
        return f"<{type(self).__name__} {texts}, view {self.usual()!r}>"

    @abstractmethod
    def views(self) -> Mapping[str, Callable[[Any, Choice], View]]:
        """The views there are of it by name; the first that this model has something for is the usual one."""

    @abstractmethod
    def usual(self) -> str:
        """The view that says most of this model."""

    @abstractmethod
    def texts(self) -> Sequence[Side]:
        """What stands above its pictures: what was read, what was written."""

    @abstractmethod
    def tokens(self, side: str) -> Sequence[str]:
        """What a layer of this side (READING or WRITING) had before it at each step."""

    def queries(self, kind: str) -> Sequence[str]:
        """The tokens at the rows of an attention: what was being written, or who looks among its own kind."""
        return self.tokens(READING if kind == READING else WRITING)

    def keys(self, kind: str) -> Sequence[str]:
        """The tokens at its columns."""
        return self.tokens(WRITING if kind == WRITING else READING)

    def outputs(self) -> Sequence[str]:
        """What the model said, one after the other: each can be asked what it came from (`gradients_of`)."""
        return ()

    def gradients_of(self, position: int | None = None) -> Gradients:
        """How much one output, by default the last, changes with what the model had at each step."""
        outputs = self.outputs()
        place = len(outputs) - 1 if position is None else position
        if outputs and not 0 <= place < len(outputs):
            raise UserError(f"position {place}: there are the outputs 0 to {len(outputs) - 1}")
        known = [one for one in self.gradients if one.position == place]
        if known:
            return known[0]
        if self.follow is None or not outputs:
            raise UserError("there are no gradients of this; they are there for models of text")
        self.gradients.append(self.follow(place))
        return self.gradients[-1]

    def calculation_of(self, choice: Choice) -> Calculation:
        """The numbers of one head for one token, from what goes in to what comes out."""
        if self.calculate is None or not self.attention:
            raise UserError("this model has no attention whose numbers one could follow; try the view gates")
        self.calculations = [self.calculate(self, choice)]
        return self.calculations[0]

    def of_kind(self, kind: str) -> list[Attention]:
        return [layer for layer in self.attention if layer.kind == kind]

    def tree(self, parts: Collection[str] | None = None) -> dict[str, Any]:
        """In dicts and lists; of the parts that a view may be drawn from, those asked for (None: all)."""
        left_out = set() if parts is None else self.parts() - set(parts)
        found = plain({one.name: getattr(self, one.name) for one in fields(self) if one.name not in left_out})
        for name, value in found.items():
            if isinstance(side := getattr(self, name), Side):
                value["direction"] = side.direction
        return found

    def parts(self) -> set[str]:
        """What of the data is only there for some view, and may be left out of a file for others."""
        return {"attention", "gates", "ponder", "positions", "gradients", "calculations"}

    def view(self, name: str = "", **choice: Any) -> View:
        """A view by its name, by default the usual one. `choice` has the fields of Choice."""
        views = self.views()
        name = name or self.usual()
        if name not in views:
            raise UserError(f"no view '{name}'{suggestion(name, views)}")
        chosen = Choice(**choice)
        if chosen.attention not in KINDS:
            raise UserError(f"no attention '{chosen.attention}'{suggestion(chosen.attention, KINDS)}")
        return views[name](self, chosen)

    def json(self, parts: Collection[str] | None = None) -> str:
        """The tree as a file holds it."""
        return json.dumps(self.tree(parts), ensure_ascii=True, allow_nan=False)

    def svg(self, view: str = "", **choice: Any) -> str:
        """One view's first picture."""
        return self.view(view, **choice).pictures[0].svg()

    def figure(self, view: str = "", **choice: Any) -> Figure:
        """The same as a matplotlib figure."""
        return self.view(view, **choice).pictures[0].figure()

    def html(self, view: str = "", **choice: Any) -> str:
        """A page by itself: all pictures of a view, and its values."""
        from regard.inspection.draw.page import page

        return page(self, self.view(view, **choice))

    def _repr_html_(self) -> str:
        from regard.inspection.draw.page import framed

        return framed(self.html())


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"


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
