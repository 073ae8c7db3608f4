"""The one look of the lab's figures: ink and paper of the attention pictures, calm axes, names beside the lines.

Figures are made without pyplot, which would keep them alive and ask for a screen.
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
"""Violet, rust, teal, ochre, blue: told apart also by those who see red and green alike."""
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
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that every machine draws the same letters
    "svg.fonttype": "path",
    "svg.hashsalt": "regard",  # the same figure gives the same bytes
}


@contextmanager
def styled() -> Iterator[None]:
    """Inside, matplotlib draws in our style whatever its user's settings are."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def rendered(draw: Callable[[], Figure]) -> dict[str, bytes]:
    """A figure as the bytes of its `svg` and `png` files; the same figure gives the same bytes."""
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
    """A figure of equal panels, each `width` by `height` inches, in reading order; `sharey=True` and the like."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False, **shared).flat)


def label_ends(axes: Axes, labels: Sequence[tuple[float, str, str]], gap: float = 0.062) -> None:
    """Writes names at the right edge, each (y, text, colour) at its height; those too near are pushed apart.

    Called last: what is drawn later may move the heights. `gap` is a share of the panel's height.
    """
    axes.get_ylim()  # asking for the limits settles them; until then heights mean nothing
    height = axes.transAxes.inverted()
    spots = sorted((height.transform(axes.transData.transform((1, y)))[1], text, colour) for y, text, colour in labels)
    heights = _apart([spot for spot, *_ in spots], gap)
    for y, (_, text, colour) in zip(heights, spots):
        axes.annotate(
            text, (1, y), xycoords="axes fraction", xytext=(6, 0), textcoords="offset points",
            color=colour, va="center", annotation_clip=False,
        )  # fmt: skip


def _apart(heights: Sequence[float], gap: float) -> list[float]:
    """Ascending heights, moved as little as it takes to keep a gap: those that touch are centred on their middle."""
    groups: list[list[float]] = []  # each stands for labels drawn evenly around the mean of what they wanted
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
