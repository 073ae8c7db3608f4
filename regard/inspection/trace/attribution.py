"""Attribution as plain data: how much each input token (or patch) and each token written so far did for each output.

record/attribution computes it, draw/attribution.py draws it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.inspection.trace.base import Trace

COMPLETE = 0.01
"""The completeness error below which integrated gradients stop adding steps."""


@dataclass
class Attribution:
    """One value for each pair of an output (row) and an input (column). Draws itself like the trace it belongs to."""

    method: str
    """A file of record/attribution, such as `occlusion`."""
    rows: list[str]
    """The outputs: words, tokens or labels."""
    outputs: list[list[int]]
    """The indexes of the trace's outputs that each row combines."""
    columns: list[str]
    """The inputs: source words or patches first, then the words written before."""
    sides: list[str]
    """SOURCE or TARGET of each column."""
    values: np.ndarray
    """(rows, columns); positive: it made the output more likely."""
    explained: list[float]
    """The quantity of each row: its log-probability, or its difference from that of the contrast."""
    methods: list[str]
    """The methods that this model can be explained by."""
    candidates: list[str] = field(default_factory=list)
    """What else the one output could have been, the most likely first: each can be a contrast."""
    position: int | None = None
    """The index of the one output that was chosen, if one was."""
    contrast: str = ""
    """The other candidate, in "why this and not that"."""
    tokens: bool = False
    """Whether rows and columns are the model's tokens rather than words."""
    completeness_error: float | None = None
    """Of integrated gradients: how far a row is from summing to the difference between the output and that of the
    baseline, as a share of this difference; the largest of the rows of tokens."""
    steps: int | None = None
    """Points on the path of integrated gradients."""
    options: dict[str, Any] = field(default_factory=dict)
    """What draws it again: the options of `Trace.view`."""

    def __post_init__(self) -> None:
        self.trace: Trace | None = None
        """The trace that it belongs to, and that draws it."""

    @property
    def source_shares(self) -> np.ndarray:
        """The share of the source in each row: its absolute values, relative to those of the whole row."""
        size = np.abs(self.values).astype(np.float64)
        whole = size.sum(1)
        own = size[:, [side == "source" for side in self.sides]].sum(1)
        return np.divide(own, whole, out=np.zeros_like(whole), where=whole > 0)

    @property
    def has_prefix(self) -> bool:
        """Whether there are columns of both sides, so that shares say something."""
        return len(set(self.sides)) > 1

    def json(self) -> str:
        """Every number as JSON."""
        import json

        from regard.inspection.trace.base import plain

        return json.dumps(plain(self), ensure_ascii=True, allow_nan=False)

    def svg(self) -> str:
        """The picture as SVG."""
        return self._drawn().svg("why", **self.options)

    def figure(self) -> Figure:
        """The picture with matplotlib."""
        return self._drawn().figure("why", **self.options)

    def html(self) -> str:
        """One self-contained page."""
        return self._drawn().html("why", **self.options)

    def _drawn(self) -> Trace:
        if self.trace is None:
            raise ValueError("an attribution without its trace cannot be drawn")
        return self.trace

    def _repr_html_(self) -> str:
        from regard.inspection.draw.page import framed

        return framed(self.html())
