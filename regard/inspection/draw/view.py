"""A view: the pictures that belong together, each drawn on demand as SVG or as a matplotlib figure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.inspection.draw.canvas import Canvas
    from regard.inspection.trace.base import Choice


@dataclass
class Picture:
    """One drawing."""

    heading: str
    svg: Callable[[], str]
    figure: Callable[[], Figure]
    kind: str = ""
    """The kind of attention of the head that it shows, where a page may switch to another head."""
    layer: int = 0
    head: int = 0
    layers: int = 0
    heads: int = 0
    """How many layers and heads there are to choose from."""


@dataclass
class View:
    """Pictures that belong together; where there is room for one, the first is shown."""

    name: str
    about: str
    """What the pictures show, in a sentence."""
    parts: tuple[str, ...]
    """The parts of the trace that it is drawn from (`Trace.parts`)."""
    pictures: list[Picture] = field(default_factory=list)


DrawView = Callable[[Any, "Choice"], View]
"""Draws a view: of a trace, and what was chosen of it."""


def canvas_picture(heading: str, draw: Callable[[], Canvas], for_svg: Callable[[], Canvas] | None = None) -> Picture:
    """A picture that is drawn on a canvas, for SVG on another one where it needs more marks."""
    return Picture(heading, lambda: (for_svg or draw)().svg(), lambda: draw().figure())
