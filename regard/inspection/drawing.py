"""Pictures of an attention matrix: an SVG written by hand, and a matplotlib figure for PNG and PDF.

The source is on top, the target at the left, and the darker a cell, the greater its weight. Knows nothing of models.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Weights = Float[Tensor, "T S"] | Sequence[Sequence[float]]

CELL, GAP, FONT, MARGIN = 34, 3, 14, 22.0
SLANT = 0.71
"""What a label that leans by 45 degrees needs of its length, across and up."""
LONGEST = 24
"""Characters of a label that are drawn; the whole of it is in the tooltips."""

# The picture brings its own paper, so that it reads on any page; the paper is dark where the reader's pages are.
# The light colours are attributes and the dark ones a style, so that programs without style sheets draw the light one.
LIGHT = {"paper": "#ffffff", "text": "#29263b", "faint": "#77738c", "tile": "#f3f1fa", "ink": "#43209e"}
DARK = {"paper": "#17151f", "text": "#ebe8f5", "faint": "#9d98b5", "tile": "#24212f", "ink": "#c5b3ff"}
RIM = "#8a84a8"
STYLE = (
    "@media (prefers-color-scheme:dark){"
    + "".join(f".regard-matrix .{name}{{fill:{colour}}}" for name, colour in DARK.items())
    + "}"
)


def matrix_svg(
    weights: Weights, columns: Sequence[str], rows: Sequence[str], title: str = "", scale: float | None = None
) -> str:
    """A self-contained SVG whose tooltips hold the exact weights. `scale` is drawn darkest, by default the greatest."""
    values, darkest = _checked(weights, columns, rows, scale)
    title = _shortened(title, 4 * LONGEST)
    above, beside = [_label(text) for text in columns], [_label(text) for text in rows]
    lengths = [_length(text) for text in above]
    slanted = any(length > CELL - GAP for length in lengths)

    left = MARGIN + max(map(_length, beside), default=0) + 10
    top = MARGIN + (2 * FONT if title else 0) + 12 + (SLANT * max(lengths) if slanted else FONT)
    right, bottom = left + len(above) * CELL, top + len(beside) * CELL
    ends = [left + (i + 0.6) * CELL + SLANT * length for i, length in enumerate(lengths) if slanted]
    width = round(max([right, left + 9 * FONT, MARGIN + 1.15 * _length(title), *ends]) + MARGIN)
    height = round(bottom + 14 + FONT + MARGIN)

    def text(words: str, x: float, y: float, more: str = "") -> str:
        return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{_safe(words)}</text>'

    labels = [text(title, MARGIN, MARGIN + FONT, ' font-weight="600"')] if title else []
    for i, word in enumerate(above):
        x, y = left + (i + 0.5) * CELL, top - 8
        turn = f' transform="rotate(-45 {x:.1f} {y:.1f})"' if slanted else ' text-anchor="middle"'
        labels.append(text(word, x, y, turn))
    labels += [text(word, left - 10, top + (j + 0.64) * CELL, ' text-anchor="end"') for j, word in enumerate(beside)]

    tiles, inks = [], []

    def cell(x: float, y: float, side: int, share: float, tooltip: str = "") -> None:
        square = f'<rect x="{x:.1f}" y="{y:.1f}" width="{side}" height="{side}" rx="{side / 6:.1f}"'
        tiles.append(f"{square}/>")
        inks.append(f'{square} fill-opacity="{share:.3f}">{tooltip}</rect>')

    shares = np.nan_to_num(values / darkest, nan=0.0, posinf=0.0, neginf=0.0).clip(0, 1)
    for (j, i), value in np.ndenumerate(values):
        words = _safe(f"{_isolated(columns[i])} → {_isolated(rows[j])}")
        x, y = left + i * CELL + GAP / 2, top + j * CELL + GAP / 2
        cell(x, y, CELL - GAP, float(shares[j, i]), f"<title>{words}: {value!s}</title>")

    legend = bottom + 14
    for i in range(5):
        cell(left + 14 + 14 * i, legend, 12, i / 4)
    small = ' font-size="12"'
    scale_ends = [text("0", left + 2, legend + 10, small), text(f"{darkest:.2g}", left + 88, legend + 10, small)]

    groups = {"tile": tiles, "ink": inks, "text": labels, "faint": scale_ends}
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="regard-matrix" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="img" aria-label="{_safe(title or "attention")}" font-size="{FONT}" '
            'font-family="system-ui, -apple-system, Segoe UI, Noto Sans, DejaVu Sans, sans-serif">',
            f"<style>{STYLE}</style>",
            f'<rect class="paper" fill="{LIGHT["paper"]}" stroke="{RIM}" stroke-opacity=".35" x=".5" y=".5" '
            f'width="{width - 1}" height="{height - 1}" rx="12"/>',
            *(
                f'<g class="{name}" fill="{LIGHT[name]}">\n' + "\n".join(group) + "\n</g>"
                for name, group in groups.items()
            ),
            "</svg>\n",
        ]
    )


def matrix_figure(
    weights: Weights, columns: Sequence[str], rows: Sequence[str], title: str = "", scale: float | None = None
) -> Figure:
    """The same picture as a matplotlib figure: `matrix_figure(...).savefig("attention.png", dpi=200)`."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

    values, darkest = _checked(weights, columns, rows, scale)
    above, beside = ([_printable(_shortened(text)) for text in words] for words in (columns, rows))
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
        axes.set_title(_printable(_shortened(title, 4 * LONGEST)), loc="left", **plain)
    figure.colorbar(mesh, ax=axes, shrink=0.6).outline.set_visible(False)
    return figure


def _checked(
    weights: Weights, columns: Sequence[str], rows: Sequence[str], scale: float | None
) -> tuple[np.ndarray, float]:
    """The weights as float32, whose shortest decimal form is exact, and the weight to draw darkest."""
    values = torch.as_tensor(weights).detach().float().cpu().numpy()
    if values.size == 0:
        values = values.reshape(len(rows), len(columns))
    if values.shape != (len(rows), len(columns)):
        raise ValueError(f"a matrix of {values.shape} does not fit {len(rows)} rows and {len(columns)} columns")
    greatest = float(values[np.isfinite(values)].max(initial=0.0))
    return values, scale or greatest or 1.0


def _printable(text: str) -> str:
    """What XML has no place for (most control characters, lone surrogates) becomes the replacement character."""
    return re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)


def _safe(text: str) -> str:
    return escape(_printable(text), {'"': "&quot;"})


def _label(text: str) -> str:
    return _isolated(_shortened(text))


def _shortened(text: str, longest: int = LONGEST) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _isolated(text: str) -> str:
    """Right-to-left words between the two marks that keep them from reordering their neighbours."""
    backwards = any(unicodedata.bidirectional(character) in ("R", "AL", "AN") for character in text)
    return f"\u2068{text}\u2069" if backwards else text


def _length(text: str) -> float:
    """About how wide a text is drawn: the font is the reader's, so this errs to the wide side."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    marks = sum(unicodedata.category(character) in ("Mn", "Cf") for character in text)
    return FONT * (0.6 * (len(text) - wide - marks) + 1.2 * wide)
