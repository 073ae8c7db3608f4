"""The trace of a model on one input, as plain data (arrays, strings): the base class and the parts that traces share.

Pictures are drawn from it alone, and `tree()` is what a JSON file holds: the same numbers, to the last bit. Arrays
are float32, whose shortest decimal form is exact.
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
from regard.inspection.trace.arithmetic import Calculation
from regard.inspection.trace.attribution import Attribution
from regard.inspection.trace.gradients import Gradients
from regard.inspection.trace.logit_lens import LogitLens

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.inspection.draw.view import DrawView, View
    from regard.inspection.trace.model_map import ModelMap

CROSS, SOURCE, TARGET = "cross", "source", "target"
"""Kinds of attention: cross-attention, self-attention of the source, self-attention of the target."""
KINDS = {CROSS: "cross-attention", SOURCE: "self-attention of the source", TARGET: "self-attention of the target"}

NO_WORD = -1
"""In place of the index of a word, for a token that belongs to none: a language tag."""


@dataclass
class Side:
    """A text with its tokens and words: the source or the target."""

    text: str
    tokens: list[str]
    """The model's tokens, END last where there is one."""
    words: list[str]
    """The words between spaces."""
    word_of: list[int]
    """The index of each token's word, or NO_WORD for a language tag, a blank or BEGIN; END has none and is not here."""

    @property
    def direction(self) -> str:
        """`rtl` or `ltr`, by the first letter that has a direction, like HTML's dir="auto"."""
        kinds = (unicodedata.bidirectional(letter) for letter in self.text)
        return "rtl" if next((kind for kind in kinds if kind in ("L", "R", "AL")), "L") != "L" else "ltr"


@dataclass
class Attention:
    """The attention weights of one layer. Row t holds the weights of query t and sums to one."""

    path: str
    """The module, by its name in the model."""
    kind: str
    """CROSS, SOURCE or TARGET."""
    layer: int
    """From 0; where one layer is applied repeatedly (Universal Transformer), the index of the application."""
    weights: np.ndarray
    """(heads, queries, keys)"""


@dataclass
class Gates:
    """The gates of a recurrent layer at every token, by name, and the states it computed."""

    path: str
    side: str
    """SOURCE or TARGET: whose tokens."""
    layer: int
    backwards: bool
    values: dict[str, np.ndarray]
    """Each (tokens, units)."""


@dataclass
class Ponder:
    """Adaptive computation time: the ponder time of each token, and the halting weight of each step."""

    path: str
    side: str
    times: np.ndarray
    shares: np.ndarray
    """(tokens, steps)"""


@dataclass
class Positions:
    """A positional encoding."""

    paths: list[str]
    """The modules that share these vectors."""
    kind: str
    values: np.ndarray
    """(positions, width)"""


@dataclass
class Choice:
    """Which part of a view to show: the options of `Trace.view`."""

    layer: int | None = None
    head: int | None = None
    attention: str = CROSS
    tokens: bool = False
    position: int | None = None
    """The index of a query, of a decoding step, or of a positional encoding."""
    unit: int | None = None
    """The index of a unit of a recurrent layer."""
    without: Sequence[str] = ()
    """Parts to switch off, by name (record/parts.py)."""
    mean: bool = False
    """Whether they are replaced by their mean instead of zeros."""
    patch: Sequence[str] = ()
    """Parts to take from another sentence."""
    other: str = ""
    """The other sentence."""
    index: str = ""
    """The file of an index of training examples; empty: the model's own in the cache."""
    method: str = "occlusion"
    """The method of attribution: a file of record/attribution."""
    contrast: str = ""
    """Another candidate for the output at `position`: why not this one?"""

    def explained(self) -> dict[str, Any]:
        """The options that an attribution depends on."""
        return {name: getattr(self, name) for name in ("method", "position", "contrast", "tokens")}


@dataclass(kw_only=True, repr=False)
class Trace(ABC):
    """One input and what a model computed for it. Draws itself: `svg()`, `figure()`, `html()`; `json()` saves it.

    A subclass is the trace of one task; its views are registered in draw/views.
    """

    model: str
    attention: list[Attention] = field(default_factory=list)
    gates: list[Gates] = field(default_factory=list)
    ponder: list[Ponder] = field(default_factory=list)
    positions: list[Positions] = field(default_factory=list)
    gradients: list[Gradients] = field(default_factory=list)
    """Those requested so far (`gradients_of`): each needs a backward pass."""
    calculations: list[Calculation] = field(default_factory=list)
    """The calculation requested last (`calculation_of`)."""
    map: ModelMap | None = None
    """The model's blocks, in the order in which data flows through them."""
    logit_lens: LogitLens | None = None
    """What the model would write after each layer, once it was requested (`lens`)."""
    attributions: list[Attribution] = field(default_factory=list)
    """The attribution requested last (`attribution_of`)."""

    def __post_init__(self) -> None:
        self.compute_gradients: Callable[[int], Gradients] | None = None
        """Computes the gradients of an output by its index; set by the recorder that has the model."""
        self.compute_calculation: Callable[[Trace, Choice], Calculation] | None = None
        """Computes the arithmetic of the chosen head; set likewise."""
        self.compute_logit_lens: Callable[[], LogitLens] | None = None
        self.compute_attribution: Callable[[Trace, Choice], Attribution] | None = None
        """Computes the attribution of the outputs to the inputs; set likewise."""

    def __repr__(self) -> str:
        """One line: input, output and the default view. The numbers are in the attributes."""
        texts = " -> ".join(repr(_shortened(side.text)) for side in self.texts())
        return f"<{type(self).__name__} {texts}, view {self.default_view()!r}>"

    @abstractmethod
    def default_view(self) -> str:
        """The view to show first."""

    @abstractmethod
    def texts(self) -> Sequence[Side]:
        """The headings of its pictures: the input, the output."""

    @abstractmethod
    def tokens(self, side: str) -> Sequence[str]:
        """The input tokens of the layers of this side (SOURCE or TARGET)."""

    def queries(self, kind: str) -> Sequence[str]:
        """The tokens at the rows of an attention."""
        return self.tokens(SOURCE if kind == SOURCE else TARGET)

    def keys(self, kind: str) -> Sequence[str]:
        """The tokens at its columns."""
        return self.tokens(TARGET if kind == TARGET else SOURCE)

    def outputs(self) -> Sequence[str]:
        """The model's outputs in order; `gradients_of` takes the index of one."""
        return ()

    def gradients_of(self, position: int | None = None) -> Gradients:
        """The gradients of one output's log-probability, by default of the last output."""
        outputs = self.outputs()
        index = len(outputs) - 1 if position is None else position
        if outputs and not 0 <= index < len(outputs):
            raise UserError(f"position {index}: the outputs are 0 to {len(outputs) - 1}")
        known = [one for one in self.gradients if one.position == index]
        if known:
            return known[0]
        if self.compute_gradients is None or not outputs:
            raise UserError("there are no gradients for this input; only models that read text have them")
        self.gradients.append(self.compute_gradients(index))
        return self.gradients[-1]

    def calculation_of(self, choice: Choice) -> Calculation:
        """The arithmetic of one head for one query, from the attention's input to its output."""
        if self.compute_calculation is None or not self.attention:
            raise UserError("this model has no attention whose arithmetic could be shown; try the view gates")
        self.calculations = [self.compute_calculation(self, choice)]
        return self.calculations[0]

    def lens(self) -> LogitLens:
        """What the model would write after each layer."""
        if self.logit_lens is None:
            if self.compute_logit_lens is None:
                raise UserError("the logit lens shows what a decoder would write; this model has none")
            self.logit_lens = self.compute_logit_lens()
        return self.logit_lens

    def attribution_of(self, choice: Choice) -> Attribution:
        """What each input did for each output, or for the one at `choice.position`."""
        if not self.attributions or self.attributions[0].options != choice.explained():
            if self.compute_attribution is None:
                raise UserError("this input cannot be explained: its task has no attribution")
            self.attributions = [self.compute_attribution(self, choice)]
            self.attributions[0].trace = self
        return self.attributions[0]

    def of_kind(self, kind: str) -> list[Attention]:
        """The attention layers of one kind."""
        return [layer for layer in self.attention if layer.kind == kind]

    def parts(self) -> set[str]:
        """The fields that only some views need; a file for one view leaves the others out."""
        return {
            "attention",
            "gates",
            "ponder",
            "positions",
            "gradients",
            "calculations",
            "map",
            "logit_lens",
            "attributions",
        }

    def tree(self, parts: Collection[str] | None = None) -> dict[str, Any]:
        """The trace as dicts and lists. Of `parts()`, only those requested are included (None: all)."""
        left_out = set() if parts is None else self.parts() - set(parts)
        values = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in left_out}
        found = plain(values)
        for name, value in values.items():
            if isinstance(value, Side):
                found[name]["direction"] = value.direction
        return found

    def json(self, parts: Collection[str] | None = None) -> str:
        """Writes every number of the trace as JSON.

        Args:
            parts: The fields to include among those that only some views need (`parts()`); None: all.

        Returns:
            The JSON file as text.
        """
        return json.dumps(self.tree(parts), ensure_ascii=True, allow_nan=False)

    def views(self) -> Mapping[str, DrawView]:
        """The views of this trace by name (draw/views)."""
        from regard.inspection.draw.views import views_of

        return views_of(self)

    def view(self, name: str = "", **choice: Any) -> View:
        """A view by its name, by default `default_view()`. `choice` has the fields of Choice."""
        views = self.views()
        name = name or self.default_view()
        if name not in views:
            raise UserError(f"no view '{name}'{suggestion(name, views)}")
        chosen = Choice(**choice)
        if chosen.attention not in KINDS:
            raise UserError(f"no attention '{chosen.attention}'{suggestion(chosen.attention, KINDS)}")
        return views[name](self, chosen)

    def svg(self, view: str = "", **choice: Any) -> str:
        """Draws the first picture of a view as SVG.

        Args:
            view: The name of the view; by default the trace's own.
            choice: Which part of it: `layer`, `head`, `attention`, `tokens`, `position`, `unit`; see
                `regard inspect --help`.

        Returns:
            The SVG file as text.
        """
        return self.view(view, **choice).pictures[0].svg()

    def figure(self, view: str = "", **choice: Any) -> Figure:
        """Draws the first picture of a view with matplotlib.

        Args:
            view: The name of the view; by default the trace's own.
            choice: Which part of it: `layer`, `head`, `attention`, `tokens`, `position`, `unit`; see
                `regard inspect --help`.

        Returns:
            A matplotlib figure.
        """
        return self.view(view, **choice).pictures[0].figure()

    def html(self, view: str = "", **choice: Any) -> str:
        """Draws all pictures of a view on one self-contained page.

        Args:
            view: The name of the view; by default the trace's own.
            choice: Which part of it: `layer`, `head`, `attention`, `tokens`, `position`, `unit`; see
                `regard inspect --help`.

        Returns:
            The HTML file as text.
        """
        from regard.inspection.draw.page import page

        return page(self, self.view(view, **choice))

    def _repr_html_(self) -> str:
        from regard.inspection.draw.page import framed

        return framed(self.html())


def index_in(index: int, count: int, what: str) -> int:
    """The index of a layer, head, unit or position, checked."""
    if not 0 <= index < count:
        raise UserError(f"{what} {index}: there are only {what}s 0 to {count - 1}")
    return index


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"


def plain(value: Any) -> Any:
    """Dataclasses and arrays as dicts and lists that JSON can hold: NaN and infinity become null."""
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, np.ndarray):
        if value.ndim == 1 and value.dtype == np.float32 and np.isfinite(value).all():
            return [*map(float, map(str, value))]  # as `number` does it, in a third of the time
        return [plain(row) for row in value] if value.ndim > 1 else [number(one) for one in value]
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    return number(value) if isinstance(value, float) else value


def number(value: float | np.floating) -> float | None:
    """A float32 by its shortest decimal form, which reads back as the same float32; any other number unchanged."""
    if not np.isfinite(value):
        return None
    single = np.float32(value)
    return float(str(single)) if float(single) == value else float(value)
