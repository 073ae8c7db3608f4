"""An attention matrix as a heatmap: an SVG, and a matplotlib figure for PNG and PDF. Source on top, target left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.inspection.draw.style import (
    FONT,
    LIGHT,
    LONGEST,
    MARGIN,
    column_label_end,
    column_label_height,
    column_labels,
    isolated,
    label,
    length,
    picture,
    printable,
    safe,
    shortened,
    text,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Weights = Float[Tensor, "T S"] | Float[np.ndarray, "T S"] | Sequence[Sequence[float]]

CELL, GAP = 34, 3


def matrix_svg(
    weights: Weights, columns: Sequence[str], rows: Sequence[str], title: str = "", scale: float | None = None
) -> str:
    """A self-contained SVG whose tooltips hold the exact weights. `scale` is drawn darkest, by default the largest."""
    values, darkest = _checked(weights, columns, rows, scale)
    title = shortened(title, 4 * LONGEST)
    above, beside = [label(word) for word in columns], [label(word) for word in rows]

    left = MARGIN + max(map(length, beside), default=0) + 10
    top = MARGIN + (2 * FONT if title else 0) + 12 + column_label_height(above, CELL)
    right, bottom = left + len(above) * CELL, top + len(beside) * CELL
    furthest = max(right, left + 9 * FONT, MARGIN + 1.15 * length(title), column_label_end(above, left, CELL))
    width, height = round(furthest + MARGIN), round(bottom + 14 + FONT + MARGIN)

    labels = [text(title, MARGIN, MARGIN + FONT, ' font-weight="600"')] if title else []
    labels += column_labels(above, left, top - 8, CELL)
    labels += [text(word, left - 10, top + (j + 0.64) * CELL, ' text-anchor="end"') for j, word in enumerate(beside)]

    tiles, inks = [], []

    def cell(x: float, y: float, side: int, share: float, tooltip: str = "") -> None:
        square = f'<rect x="{x:.1f}" y="{y:.1f}" width="{side}" height="{side}" rx="{side / 6:.1f}"'
        tiles.append(f"{square}/>")
        inks.append(f'{square} fill-opacity="{share:.3f}">{tooltip}</rect>')

    shares = np.nan_to_num(values / darkest, nan=0.0, posinf=0.0, neginf=0.0).clip(0, 1)
    for (j, i), value in np.ndenumerate(values):
        words = safe(f"{isolated(columns[i])} → {isolated(rows[j])}")
        x, y = left + i * CELL + GAP / 2, top + j * CELL + GAP / 2
        cell(x, y, CELL - GAP, float(shares[j, i]), f"<title>{words}: {value!s}</title>")

    legend = bottom + 14
    for i in range(5):
        cell(left + 14 + 14 * i, legend, 12, i / 4)
    small = ' font-size="12"'
    scale_ends = [text("0", left + 2, legend + 10, small), text(f"{darkest:.2g}", left + 88, legend + 10, small)]

    groups = {"tile": tiles, "ink": inks, "text": labels, "faint": scale_ends}
    return picture("regard-matrix", width, height, groups, title, about="attention")


def matrix_figure(
    weights: Weights, columns: Sequence[str], rows: Sequence[str], title: str = "", scale: float | None = None
) -> Figure:
    """The same picture as a matplotlib figure: `matrix_figure(...).savefig("attention.png", dpi=200)`."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

    values, darkest = _checked(weights, columns, rows, scale)
    above, beside = ([printable(shortened(word)) for word in words] for words in (columns, rows))
    aside = max(map(len, [*above, *beside]), default=0) / 10
    figure = Figure(figsize=(1.5 + aside + 0.45 * len(columns), 1 + aside + 0.45 * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    colours = LinearSegmentedColormap.from_list("regard", [LIGHT["tile"], LIGHT["ink"]])
    mesh = axes.pcolormesh(values, cmap=colours, vmin=0, vmax=darkest, edgecolors=LIGHT["paper"], linewidth=1.5)
    axes.set_aspect("equal")
    axes.invert_yaxis()
    axes.xaxis.tick_top()
    plain: dict[str, Any] = {"parse_math": False, "color": LIGHT["text"]}
    axes.set_xticks(np.arange(len(columns)) + 0.5, above, rotation=45, ha="left", **plain)
    axes.set_yticks(np.arange(len(rows)) + 0.5, beside, **plain)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    if title:
        axes.set_title(printable(shortened(title, 4 * LONGEST)), loc="left", **plain)
    figure.colorbar(mesh, ax=axes, shrink=0.6).outline.set_visible(False)
    return figure


def _checked(
    weights: Weights, columns: Sequence[str], rows: Sequence[str], scale: float | None
) -> tuple[np.ndarray, float]:
    """The weights as float32, whose shortest decimal form is exact, and the weight that is drawn darkest."""
    values = torch.as_tensor(weights).detach().float().cpu().numpy()
    if values.size == 0:
        values = values.reshape(len(rows), len(columns))
    if values.shape != (len(rows), len(columns)):
        raise ValueError(f"a matrix of {values.shape} does not fit {len(rows)} rows and {len(columns)} columns")
    greatest = float(values[np.isfinite(values)].max(initial=0.0))
    return values, scale or greatest or 1.0
