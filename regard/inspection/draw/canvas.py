"""A canvas: a list of marks (rectangles, lines, text, images) that becomes an SVG or a matplotlib figure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.inspection.draw import style
from regard.inspection.draw.style import FONT, LIGHT
from regard.inspection.trace.scene import png_url

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Box = tuple[float, float, float, float]
"""Left, top, width, height."""
ANCHORS = {"start": "left", "middle": "center", "end": "right"}
DOTS = 100
"""The resolution (dpi) at which a figure has the size of the SVG."""


@dataclass(frozen=True)
class _Boxes:
    boxes: tuple[Box, ...]
    opacity: float
    tooltip: str
    at: str

    def svg(self) -> str:
        more = f' fill-opacity="{self.opacity:.3f}"{_at(self.at)}'
        if len(self.boxes) == 1:
            x, y, wide, high = self.boxes[0]
            return _element(f'rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}"{more}', self.tooltip)
        drawn = "".join(f"M{x:.2f} {y:.2f}h{wide:.2f}v{high:.2f}h-{wide:.2f}z" for x, y, wide, high in self.boxes)
        return _element(f'path d="{drawn}"{more}', self.tooltip)


@dataclass(frozen=True)
class _Line:
    ends: tuple[float, float, float, float]
    opacity: float
    wide: float
    tooltip: str
    at: str

    def svg(self) -> str:
        x, y, to_x, to_y = self.ends
        drawn = f'line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" stroke="currentColor"'
        more = f' stroke-width="{self.wide:.1f}" stroke-opacity="{self.opacity:.3f}"{_at(self.at)}'
        return _element(drawn + more, self.tooltip)


@dataclass(frozen=True)
class _Text:
    text: str
    x: float
    y: float
    anchor: str
    size: float
    bold: bool
    rotated: bool
    tooltip: str
    at: str

    def svg(self) -> str:
        more = f' text-anchor="{self.anchor}"' if self.anchor != "start" else ""
        more += f' font-size="{self.size:g}"' if self.size != FONT else ""
        more += ' font-weight="600"' if self.bold else ""
        more += f' transform="rotate(-45 {self.x:.1f} {self.y:.1f})"' if self.rotated else ""
        return style.text(self.text, self.x, self.y, more + _at(self.at), self.tooltip)


@dataclass(frozen=True)
class _Image:
    """An image without interpolation. The SVG holds its pixels once, however often it is used."""

    pixels: np.ndarray
    box: Box
    key: str

    def svg(self) -> str:
        x, y, wide, high = self.box
        return f'<use href="#{self.key}" transform="translate({x:.1f} {y:.1f}) scale({wide:.2f} {high:.2f})"/>'

    def defined(self) -> str:
        """The definition, one by one unit; each use scales it."""
        return (
            f'<image id="{self.key}" width="1" height="1" preserveAspectRatio="none" image-rendering="pixelated" '
            f'href="{png_url(self.pixels)}"/>'
        )


Mark = _Boxes | _Line | _Text | _Image


@dataclass
class Canvas:
    """Marks, each in a colour of the palette (style.py); colours are layers, drawn in the order of `LAYERS`.

    `at` names a mark (`data-at`), so that a page's script can find it. Tooltips hold exact values.
    """

    kind: str
    about: str
    title: str = ""
    width: float = 0.0
    height: float = 0.0
    marks: dict[str, list[Mark]] = field(default_factory=dict)

    LAYERS = ("tile", "veil", "ink", "rust", "text", "faint")

    def boxes(self, boxes: Sequence[Box], colour: str, opacity: float = 1.0, tooltip: str = "", at: str = "") -> None:
        self._reach(max((x + wide for x, _, wide, _ in boxes), default=0), max((b[1] + b[3] for b in boxes), default=0))
        self._mark(colour, _Boxes(tuple(boxes), opacity, tooltip, at))

    def line(
        self,
        ends: tuple[float, float, float, float],
        colour: str,
        opacity: float = 1.0,
        wide: float = 2.0,
        tooltip: str = "",
        at: str = "",
    ) -> None:
        self._mark(colour, _Line(ends, opacity, wide, tooltip, at))

    def text(
        self,
        text: str,
        x: float,
        y: float,
        colour: str = "text",
        anchor: str = "start",
        size: float = FONT,
        bold: bool = False,
        rotated: bool = False,
        tooltip: str = "",
        at: str = "",
    ) -> None:
        length = style.length(text) * size / FONT * (style.SLANT if rotated else 1.15 if bold else 1.0)
        self._reach(x + {"start": 1.0, "middle": 0.5, "end": 0.0}[anchor] * length, y + 0.3 * size)
        self._mark(colour, _Text(text, x, y, anchor, size, bold, rotated, tooltip, at))

    def image(self, pixels: np.ndarray, box: Box) -> None:
        """Pixels (H, W, 1 or 3) of bytes, scaled to the box. Images are among the tiles, below all other layers."""
        self._reach(box[0] + box[2], box[1] + box[3])
        key = "image-" + hashlib.sha256(repr(pixels.shape).encode() + pixels.tobytes()).hexdigest()[:16]
        self._mark("tile", _Image(pixels, box, key))

    def svg(self) -> str:
        """Self-contained: no script, no external resources."""
        groups = {name: [mark.svg() for mark in self.marks[name]] for name in self.LAYERS if name in self.marks}
        images = {mark.key: mark for mark in self.marks.get("tile", []) if isinstance(mark, _Image)}
        if images:  # compressed once each, which for a large one takes longer than all else
            groups["tile"].insert(0, f"<defs>{''.join(one.defined() for one in images.values())}</defs>")
        width, height = (round(reach + style.MARGIN) for reach in (self.width, self.height))
        return style.picture(self.kind, width, height, groups, self.title, self.about)

    def figure(self) -> Figure:
        """The same picture as a matplotlib figure: `figure.savefig("heads.png", dpi=200)`."""
        from matplotlib.figure import Figure

        width, height = self.width + style.MARGIN, self.height + style.MARGIN
        figure = Figure(figsize=(width / DOTS, height / DOTS), facecolor=LIGHT["paper"])
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_xlim(0, width)
        axes.set_ylim(height, 0)
        axes.axis("off")
        for level, name in enumerate(self.LAYERS):
            _plot(axes, LIGHT[name], self.marks.get(name, []), level)
        return figure

    def _mark(self, colour: str, mark: Mark) -> None:
        self.marks.setdefault(colour, []).append(mark)

    def _reach(self, x: float, y: float) -> None:
        self.width, self.height = max(self.width, x), max(self.height, y)


def _plot(axes: Any, colour: str, marks: Sequence[Mark], level: int) -> None:
    from matplotlib.collections import LineCollection, PolyCollection
    from matplotlib.colors import to_rgba

    points = 72 / DOTS
    shapes, shades, segments, wides, strokes = [], [], [], [], []
    for mark in marks:
        if isinstance(mark, _Boxes):
            shapes += [[(x, y), (x + w, y), (x + w, y + h), (x, y + h)] for x, y, w, h in mark.boxes]
            shades += [to_rgba(colour, mark.opacity)] * len(mark.boxes)
        elif isinstance(mark, _Line):
            segments.append([mark.ends[:2], mark.ends[2:]])
            wides.append(mark.wide * points)
            strokes.append(to_rgba(colour, mark.opacity))
        elif isinstance(mark, _Image):
            x, y, wide, high = mark.box
            pixels = mark.pixels.repeat(3, axis=2) if mark.pixels.shape[2] == 1 else mark.pixels
            extent = (x, x + wide, y + high, y)
            axes.imshow(pixels, extent=extent, aspect="auto", interpolation="nearest", zorder=level + 0.2)
        else:
            axes.text(
                mark.x,
                mark.y,
                style.printable(mark.text),
                color=colour,
                ha=ANCHORS[mark.anchor],
                va="baseline",
                fontsize=mark.size * points,
                fontweight="bold" if mark.bold else "normal",
                rotation=45 if mark.rotated else 0,
                rotation_mode="anchor",
                parse_math=False,
                zorder=level + 0.5,
            )
    if shapes:
        axes.add_collection(PolyCollection(shapes, facecolors=shades, linewidths=0, zorder=level), autolim=False)
    if segments:
        axes.add_collection(LineCollection(segments, linewidths=wides, colors=strokes, zorder=level), autolim=False)


def _element(tag: str, tooltip: str) -> str:
    return f"<{tag}><title>{style.safe(tooltip)}</title></{tag.split()[0]}>" if tooltip else f"<{tag}/>"


def _at(name: str) -> str:
    return f' data-at="{style.safe(name)}"' if name else ""
