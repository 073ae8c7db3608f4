"""The style of the lab's figures: the colours of the attention plots, plain axes, labels beside the lines.

Figures are made without pyplot, which would keep them in memory and need a display.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from regard.inspection.draw.heatmap import LIGHT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PALETTE = (LIGHT["ink"], "#c8553d", "#12806a", "#b07d12", "#3b7fc4")
"""Violet, rust, teal, ochre, blue: distinguishable with red-green colour blindness."""
TEXT, FAINT, TILE, PAPER = LIGHT["text"], LIGHT["faint"], LIGHT["tile"], LIGHT["paper"]

STYLE: dict[Any, Any] = {
    "figure.facecolor": PAPER,
    "axes.facecolor": PAPER,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": TEXT,
    "axes.titlecolor": TEXT,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e9e6f2",
    "grid.linewidth": 0.8,
    "lines.linewidth": 2.0,
    "text.color": TEXT,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": TEXT,
    "ytick.labelcolor": TEXT,
    "xtick.minor.visible": False,
    "ytick.minor.visible": False,
    "legend.frameon": False,
    "font.size": 10,
    "font.family": "DejaVu Sans",  # ships with matplotlib, so that figures are the same everywhere
    "svg.fonttype": "path",
    "svg.hashsalt": "regard",  # reproducible bytes
}


@contextmanager
def styled() -> Iterator[None]:
    """Context in which matplotlib uses our style, whatever the user's settings."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def rendered(draw: Callable[[], Figure]) -> dict[str, bytes]:
    """A figure as the bytes of its `svg` and `png` files, which are reproducible."""
    found = {}
    with styled():
        figure = draw()
        for kind, notes in (("svg", {"Date": None, "Creator": None}), ("png", {"Software": None})):
            file = io.BytesIO()
            figure.savefig(file, format=kind, dpi=160, metadata=notes)
            found[kind] = file.getvalue()
    return found


def panels(
    columns: int = 1, rows: int = 1, width: float = 4.6, height: float = 3.6, **shared: Any
) -> tuple[Figure, list[Axes]]:
    """A figure of equal panels, each `width` by `height` inches, in reading order; `options` such as `sharey=True`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False, **shared).flat)


def label_ends(axes: Axes, labels: Sequence[tuple[float, str, str]], gap: float = 0.062) -> None:
    """Writes labels (y, text, colour) at the right edge at their heights and separates those that would overlap.

    Call it last, because further drawing may change the axis. `gap` is a share of the panel's height.
    """
    axes.get_ylim()  # fixes the limits of the axis, which the heights depend on
    height = axes.transAxes.inverted()
    spots = sorted((height.transform(axes.transData.transform((1, y)))[1], text, colour) for y, text, colour in labels)
    heights = _apart([spot for spot, *_ in spots], gap)
    for y, (_, text, colour) in zip(heights, spots):
        axes.annotate(
            text, (1, y), xycoords="axes fraction", xytext=(6, 0), textcoords="offset points",
            color=colour, va="center", annotation_clip=False,
        )  # fmt: skip


def _apart(heights: Sequence[float], gap: float) -> list[float]:
    """Sorted heights with a minimal gap, moved as little as possible: overlapping ones are centred on their mean."""
    groups: list[list[float]] = []  # each group is spaced evenly around the mean of its heights
    for wanted in heights:
        groups.append([wanted])
        while (
            len(groups) > 1
            and _middle(groups[-1]) - _middle(groups[-2]) < gap * (len(groups[-1]) + len(groups[-2])) / 2
        ):
            last = groups.pop()
            groups[-1] += last
    return [_middle(group) + gap * (i - (len(group) - 1) / 2) for group in groups for i in range(len(group))]


def _middle(group: Sequence[float]) -> float:
    return sum(group) / len(group)
