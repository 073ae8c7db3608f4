"""Attention maps over an image: a translucent overlay (veil) that is clear where the attention weight is large.

Each map has its own scale: the place with the largest weight is clear, one without weight is nearly hidden. Tooltips
hold the exact weights. Places are numbered row by row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from regard.inspection.draw import style
from regard.inspection.draw.canvas import Box, Canvas
from regard.inspection.draw.style import FONT, LONGEST, MARGIN
from regard.inspection.trace.scene import Scene

VEIL = 0.88
"""The opacity of the veil at weight zero."""
SIDE, LARGE, GAP = 84.0, 336.0, 10.0
"""The longer side of a small map, that of a large one, and the gap between small ones."""
TOP = 56.0
"""The y where a drawing begins, below its title."""
SMALL = 11.0
BARS = 10
"""The most classes that are drawn."""
MOST = 6000
"""Places of a drawing up to which each has a tooltip. With more, places of the same shade are one mark."""
SHADES = 12


@dataclass
class AttentionMap:
    """The attention of one query over all tokens, drawn as a small map."""

    weights: np.ndarray
    who: str = ""
    """The name of the query, for the tooltips."""
    caption: str = ""
    tooltip: str = ""
    """The tooltip of the caption."""
    pick: str = ""
    """The head that a page opens on a click (`KIND LAYER HEAD`)."""
    bold: bool = False


def draw_overview(
    scene: Scene,
    rows: Sequence[tuple[str, Sequence[AttentionMap]]],
    columns: Sequence[str],
    title: str,
    probabilities: Mapping[str, float],
    notes: Sequence[str] = (),
) -> Canvas:
    """The image with its grid, the classes, and a row of maps per layer."""
    canvas = _titled_canvas("regard-patches", "attention over an image", title)
    top = TOP
    wide, high = scene.size(2 * SIDE)
    _image_with_grid(canvas, scene, (MARGIN, top, wide, high))
    _bars(canvas, probabilities, MARGIN + wide + 28, top)
    y = max(canvas.height, top + high) + 20
    for note in notes:
        canvas.text(style.shortened(note, 100), MARGIN, y, "faint", size=SMALL)
        y += 16
    _multiples(canvas, scene, rows, columns, y)
    return canvas


def _multiples(
    canvas: Canvas, scene: Scene, rows: Sequence[tuple[str, Sequence[AttentionMap]]], columns: Sequence[str], y: float
) -> None:
    wide, high = scene.size(SIDE)
    left = round(MARGIN + max((style.length(name) * SMALL / FONT for name, _ in rows), default=0) + 10)
    exact = len(scene.places) * sum(len(maps) for _, maps in rows) <= MOST
    if rows:
        y += FONT
        for i, name in enumerate(columns):
            canvas.text(name, left + i * (wide + GAP), y, "faint", size=SMALL)
        y += 6
    for name, maps in rows:
        canvas.text(name, MARGIN, y + high / 2 + 4, "faint", size=SMALL)
        for i, one in enumerate(maps):
            x = left + i * (wide + GAP)
            _attention_map(canvas, scene, one, (x, y, wide, high), exact)
            canvas.text(one.caption, x, y + high + 12, "faint", size=SMALL, tooltip=one.tooltip, at=_pick(one))
        y += high + (22 if any(one.caption for one in maps) else GAP)


def draw_caption(
    scene: Scene, maps: Sequence[AttentionMap], title: str, across: int = 6, notes: Sequence[str] = ()
) -> Canvas:
    """The image, then one map per word."""
    canvas = _titled_canvas("regard-patches", "attention over an image for each word", title)
    wide, high = scene.size(1.4 * SIDE if scene.rows > 1 else LARGE)
    across = across if scene.rows > 1 else 1
    longest = max((style.length(style.label(one.caption)) for one in maps), default=0.0)
    step = round(max(wide, longest) + 1.4 * GAP)
    top = TOP
    _image_with_grid(canvas, scene, (MARGIN, top, wide, high))
    canvas.text(style.shortened(scene.name, 14), MARGIN, top + high + 16, "faint", size=SMALL, tooltip=scene.name)
    exact = len(scene.places) * len(maps) <= MOST
    for number, one in enumerate(maps, 1):
        row, column = divmod(number, across)
        x, y = MARGIN + column * step, top + row * (high + 36)
        _attention_map(canvas, scene, one, (x, y, wide, high), exact)
        canvas.text(style.label(one.caption), x, y + high + 17, bold=one.bold, tooltip=one.tooltip, at=_pick(one))
    y = canvas.height + 18
    for note in notes:
        canvas.text(style.shortened(note, 100), MARGIN, y, "faint", size=SMALL)
        y += 16
    return canvas


def draw_query(scene: Scene, weights: np.ndarray, query: int | None, title: str, who: str) -> Canvas:
    """The map of one query, large. Tokens are named `place N` and the query has a frame, for a page's script."""
    canvas = _titled_canvas("regard-patches", "attention of one place", title)
    top = TOP
    wide, high = scene.size(LARGE)
    canvas.text(who, MARGIN, top, "faint", size=SMALL, at="who")
    top += 10
    left = MARGIN + (0, 58, 76)[scene.before]
    boxes = place_boxes(scene, (left, top, wide, high))
    for number, name in reversed([*enumerate(scene.tokens[: scene.before])]):
        beside = (MARGIN, top + 84 * number, 44.0, 44.0)
        boxes = [beside, *boxes]
        canvas.boxes([beside], "ink")
        canvas.text(name, MARGIN, beside[1] + 60, "faint", size=SMALL)
    canvas.image(scene.pixels, (left, top, wide, high))
    shares = shared(weights, scene.before)
    for number, (box, value, share) in enumerate(zip(boxes, weights, shares)):
        tooltip = f"{scene.tokens[number]}: {value!s}"
        canvas.boxes([box], "veil", VEIL * (1 - float(share)), tooltip, f"place {number}")
    if query is not None:
        canvas.boxes(_frame(boxes[query]), "ink", at=f"looker {query}")
    return canvas


def draw_every_query(scene: Scene, weights: np.ndarray, title: str, over_image: bool = True) -> Canvas:
    """The map of every place, (places, places), each at the position of its place.

    Without `over_image` only the values are drawn: positive ones in ink, negative ones in rust.
    """
    canvas = _titled_canvas("regard-patches", "attention of every place", title)
    top = TOP
    wide, high = scene.size(min(SIDE, max(30.0, 560.0 / max(scene.rows, scene.columns))))
    maps = weights.reshape(-1, scene.rows, scene.columns)
    exact = weights.size <= MOST
    for number, values in enumerate(maps):
        row, column = divmod(number, scene.columns)
        box = (MARGIN + column * (wide + 4), top + row * (high + 4), wide, high)
        if over_image:
            around = Scene("", scene.pixels, scene.rows, scene.columns, scene.places)
            _attention_map(canvas, around, AttentionMap(values.ravel(), scene.places[number]), box, exact)
        else:
            _values(canvas, scene, values.ravel(), box, scene.places[number], exact)
        canvas.boxes(_frame(place_boxes(scene, box)[number], 1.0), "ink")
    return canvas


def shared(weights: np.ndarray, before: int = 0) -> np.ndarray:
    """How clear each place is, 0 to 1: its weight relative to the largest."""
    finite = np.nan_to_num(weights, nan=0.0, posinf=0.0, neginf=0.0)
    greatest = float(finite[before:].max(initial=0.0))
    return (finite / greatest).clip(0, 1) if greatest > 0 else np.zeros_like(finite)


def _titled_canvas(kind: str, about: str, title: str) -> Canvas:
    canvas = Canvas(kind, about, style.shortened(title, 4 * LONGEST))
    canvas.text(canvas.title, MARGIN, MARGIN + FONT, bold=True)
    return canvas


def _image_with_grid(canvas: Canvas, scene: Scene, box: Box) -> None:
    """The image with thin lines between its places."""
    canvas.image(scene.pixels, box)
    x, y, wide, high = box
    opacity = 0.6 if len(scene.places) <= 100 else 0.25
    for column in range(1, scene.columns):
        across = x + column * wide / scene.columns
        canvas.line((across, y, across, y + high), "veil", opacity, 0.7)
    for row in range(1, scene.rows):
        down = y + row * high / scene.rows
        canvas.line((x, down, x + wide, down), "veil", opacity, 0.7)


def _bars(canvas: Canvas, probabilities: Mapping[str, float], left: float, top: float) -> None:
    classes = list(probabilities.items())[:BARS]
    if not classes:
        return
    names = max(style.length(style.label(name)) for name, _ in classes) * 0.93
    for number, (name, probability) in enumerate(classes):
        y = top + number * 17
        tooltip = f"{name}: {np.float32(probability)!s}"
        canvas.text(style.label(name), left + names, y + 11, anchor="end", size=13, bold=not number, tooltip=tooltip)
        canvas.boxes([(left + names + 8, y + 2, 120, 10)], "tile", tooltip=tooltip)
        canvas.boxes([(left + names + 8, y + 2, 120 * probability, 10)], "ink", tooltip=tooltip)
        canvas.text(f"{probability:.3f}", left + names + 136, y + 11, "faint", size=SMALL)


def _attention_map(canvas: Canvas, scene: Scene, one: AttentionMap, box: Box, exact: bool) -> None:
    canvas.image(scene.pixels, box)
    boxes = place_boxes(scene, box)
    weights = scene.on_places(one.weights)
    shares = shared(weights)
    if exact:
        for place, value, share, name in zip(boxes, weights, shares, scene.places):
            at = f"of {one.pick}" if one.pick else ""
            tooltip = f"{one.who} → {name}: {value!s}"
            canvas.boxes([place], "veil", VEIL * (1 - float(share)), tooltip, at)
        return
    shades: dict[int, list[Box]] = {}
    for place, share in zip(boxes, shares):
        shades.setdefault(round((1 - float(share)) * SHADES), []).append(place)
    for shade, places in sorted(shades.items()):
        if shade:
            canvas.boxes(places, "veil", VEIL * shade / SHADES)


def _values(canvas: Canvas, scene: Scene, values: np.ndarray, box: Box, who: str, exact: bool) -> None:
    """Values between -1 and 1, in ink and rust."""
    canvas.boxes([box], "tile")
    finite = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
    if not exact:
        shades: dict[int, list[Box]] = {}
        for place, share in zip(place_boxes(scene, box), finite):
            shades.setdefault(round(max(-1.0, min(1.0, float(share))) * SHADES), []).append(place)
        for shade, places in sorted(shades.items()):
            if shade:
                canvas.boxes(places, "rust" if shade < 0 else "ink", abs(shade) / SHADES)
        return
    for place, value, share, name in zip(place_boxes(scene, box), values, finite, scene.places):
        tooltip = f"{who} and {name}: {value!s}"
        canvas.boxes([place], "rust" if share < 0 else "ink", min(1.0, abs(float(share))), tooltip)


def place_boxes(scene: Scene, box: Box) -> list[Box]:
    """The box of each place of an image that fills `box`."""
    x, y, wide, high = box
    across, down = wide / scene.columns, high / scene.rows
    return [(x + c * across, y + r * down, across, down) for r in range(scene.rows) for c in range(scene.columns)]


def _frame(box: Box, thick: float = 2.0) -> list[Box]:
    x, y, wide, high = box
    return [
        (x, y, wide, thick),
        (x, y + high - thick, wide, thick),
        (x, y, thick, high),
        (x + wide - thick, y, thick, high),
    ]


def _pick(one: AttentionMap) -> str:
    return f"pick {one.pick}" if one.pick else ""
