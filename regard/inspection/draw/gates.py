"""The gates of a recurrent layer as heatmaps over tokens and units: an SVG, and a matplotlib figure for PNG and PDF.

One panel per gate, tokens on top, one row per unit, the same units in the same order in every panel. Purple (ink) is
positive, orange (rust) negative; the stronger the colour, the larger the magnitude.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from regard.inspection.draw import style
from regard.inspection.draw.style import FONT, LIGHT, LONGEST, MARGIN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Gates = Mapping[str, Float[Tensor, "T W"]]

UNITS = 24
"""The most units that are drawn."""
TOOLTIPS = 3000
"""Cells up to which each has a tooltip with its exact value; more would make the file too large."""
COLUMN, ROW, GAP, SMALL = 38, 6, 2, 11


def gates_svg(gates: Gates, tokens: Sequence[str], title: str = "", units: int = UNITS) -> str:
    """A self-contained SVG. Tooltips hold the exact means and, up to `TOOLTIPS` cells, every exact value."""
    panels, chosen, caption = _arranged(gates, tokens, units)
    title = style.shortened(title, 4 * LONGEST)
    above = [style.label(token) for token in tokens]
    high = len(chosen) * ROW
    exact = len(panels) * len(chosen) * len(tokens) <= TOOLTIPS
    left = MARGIN + max(style.length(panel.title) for panel in panels) + 10
    top = MARGIN + (2 * FONT if title else 0) + 12 + style.column_label_height(above, COLUMN)

    groups: dict[str, list[str]] = {name: [] for name in ("tile", "ink", "rust", "text", "faint")}

    def cell(
        x: float, y: float, share: float, tooltip: str = "", wide: int = COLUMN - GAP, tall: int = ROW, at: str = ""
    ) -> None:
        end = f"><title>{style.safe(tooltip)}</title></rect>" if tooltip else "/>"
        groups["rust" if share < 0 else "ink"].append(
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{wide}" height="{tall}" fill-opacity="{abs(share):.2f}"{at}{end}'
        )

    def tile(x: float, y: float, wide: int, tall: int) -> None:
        groups["tile"].append(f'<rect x="{x:.0f}" y="{y:.0f}" width="{wide}" height="{tall}"/>')

    def remark(text: str, x: float, y: float, more: str = "", tooltip: str = "") -> None:
        groups["faint"].append(style.text(text, x, y, f' font-size="{SMALL}"{more}', tooltip))

    if title:
        groups["text"].append(style.text(title, MARGIN, MARGIN + FONT, ' font-weight="600"'))
    groups["text"] += style.column_labels(above, left, top - 8, COLUMN)
    y = top
    for panel in panels:
        groups["text"].append(style.text(panel.title, left - 10, y + high / 2 + 5, ' text-anchor="end"'))
        for i, token in enumerate(tokens):
            x, word = left + i * COLUMN + GAP / 2, style.isolated(token)
            tile(x, y, COLUMN - GAP, high)
            for j, unit in enumerate(chosen):
                tooltip = f"{panel.name}, unit {unit}, {word}: {panel.values[i, unit]!s}" if exact else ""
                cell(x, y + j * ROW, panel.shares[i, unit], tooltip, at=f' data-at="unit {unit}"')
            middle, tooltip = x + (COLUMN - GAP) / 2, f"{panel.name}, mean, {word}: {panel.means[i]!s}"
            remark(_rounded(panel.means[i]), middle, y + high + 13, ' text-anchor="middle"', tooltip)
        y += high + 28

    lowest = _lowest(panels)
    remark(str(lowest), left, y + 10)
    x = left + 14
    for share in np.linspace(lowest, 1, 5 - 4 * lowest):
        tile(x, y, 12, 12)
        cell(x, y, share, wide=12, tall=12)
        x += 14
    remark("1", x + 2, y + 10)
    for i, line in enumerate(caption):
        remark(line, left, y + 32 + 15 * i)

    longest = max(map(style.length, caption)) * SMALL / FONT
    furthest = max(left + len(tokens) * COLUMN, x + 14, left + longest, MARGIN + 1.15 * style.length(title))
    width = max(furthest, style.column_label_end(above, left, COLUMN)) + MARGIN
    height = y + 32 + 15 * (len(caption) - 1) + MARGIN
    drawn = {name: group for name, group in groups.items() if group}
    return style.picture("regard-gates", round(width), round(height), drawn, title, about="gates")


def gates_figure(gates: Gates, tokens: Sequence[str], title: str = "", units: int = UNITS) -> Figure:
    """The same picture as a matplotlib figure: `gates_figure(...).savefig("gates.png", dpi=200)`."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

    panels, chosen, caption = _arranged(gates, tokens, units)
    above = [style.printable(style.shortened(token)) for token in tokens]
    high = 0.4 + 0.07 * len(chosen)
    size = (2.2 + 0.5 * max(len(tokens), 7), 1.3 + max(map(len, above), default=0) / 14 + high * len(panels))
    figure = Figure(figsize=size, layout="constrained")
    lowest = _lowest(panels)
    ends = [LIGHT["tile"], LIGHT["ink"]] if lowest == 0 else [LIGHT["rust"], LIGHT["tile"], LIGHT["ink"]]
    colours = LinearSegmentedColormap.from_list("regard", ends)
    plain: dict[str, Any] = {"parse_math": False, "color": LIGHT["text"]}
    faint: dict[str, Any] = {"color": LIGHT["faint"], "fontsize": 8}
    all_axes = list(figure.subplots(len(panels), 1, squeeze=False).flat)
    for axes, panel in zip(all_axes, panels):
        mesh = axes.pcolormesh(panel.shares[:, chosen].T, cmap=colours, vmin=lowest, vmax=1)
        axes.vlines(range(1, len(tokens)), 0, len(chosen), colors=LIGHT["paper"], linewidth=2)
        axes.invert_yaxis()
        axes.set_yticks([])
        axes.set_ylabel(style.printable(panel.title), rotation=0, ha="right", va="center", labelpad=8, **plain)
        axes.set_xticks(np.arange(len(tokens)) + 0.5, [_rounded(mean) for mean in panel.means], **faint)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    words = all_axes[0].secondary_xaxis("top")
    turn = {"rotation": 45, "ha": "left", "rotation_mode": "anchor"} if style.needs_rotation(above, COLUMN) else {}
    words.set_xticks(np.arange(len(tokens)) + 0.5, above, **turn, **plain)
    words.tick_params(length=0)
    words.spines[:].set_visible(False)
    bar = figure.colorbar(
        mesh, ax=all_axes, location="bottom", shrink=0.3, aspect=18, anchor=(0, 1), pad=0.01, ticks=[lowest, 1]
    )
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=8, labelcolor=LIGHT["faint"])
    figure.supxlabel(" ".join(caption), x=0.02, ha="left", **faint)
    if title:
        figure.suptitle(style.printable(style.shortened(title, 4 * LONGEST)), x=0.02, ha="left", fontsize=11, **plain)
    return figure


@dataclass
class _Panel:
    name: str
    title: str
    values: np.ndarray  # (T, W), float32: its shortest decimal form is exact
    shares: np.ndarray  # (T, W), from -1 to 1: how dark, and which colour
    means: np.ndarray  # (T,), over all units


def _arranged(gates: Gates, tokens: Sequence[str], units: int) -> tuple[list[_Panel], list[int], list[str]]:
    """The panels, the units to draw from top to bottom, and the lines of the caption."""
    panels = [_panel(name, values, tokens) for name, values in gates.items()]
    widths = {panel.values.shape[1] for panel in panels}
    if len(widths) != 1:
        raise ValueError(f"gates of one layer have one width, but these have {sorted(widths) or 'none'}")
    (width,) = widths
    means = f"below each token: the mean over all {width} units"
    if width <= units:
        return panels, list(range(width)), [means]
    varies = sum(panel.shares.std(0) for panel in panels)
    chosen = np.argsort(-varies, kind="stable")[:units].tolist()
    return panels, chosen, [f"{units} of {width} units, those that vary most, on top;", means]


def _panel(name: str, gate: Float[Tensor, "T W"], tokens: Sequence[str]) -> _Panel:
    values = gate.detach().float().cpu().numpy()
    if values.ndim != 2 or len(values) != len(tokens):
        raise ValueError(f"gate '{name}' of {values.shape} does not fit {len(tokens)} words")
    finite = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
    # Gates are within [-1, 1]; a cell state need not be, and then its title gives the scale.
    darkest = max(1.0, float(np.abs(finite).max(initial=0.0)))
    title = name if darkest == 1 else f"{name} ±{darkest:.2g}"
    return _Panel(name, title, values, finite.astype(float) / darkest, values.mean(1, dtype=float))


def _lowest(panels: Sequence[_Panel]) -> int:
    """Where the colour scale begins: one scale serves all panels, since positive values look the same in both."""
    return -1 if any((panel.shares < 0).any() for panel in panels) else 0


def _rounded(mean: float) -> str:
    return f"{round(float(mean), 2) + 0.0:.2f}"  # 0.00, not -0.00
