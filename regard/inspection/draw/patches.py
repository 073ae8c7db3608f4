"""A picture and where a model looked at it: a veil lies over its places, and lifts where it looked.

The place that was looked at most is clear, and one that got no share is as good as hidden; so each picture has a scale
of its own. Tooltips hold the exact weights. Places come row by row. Knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from regard.inspection.draw import style as paper
from regard.inspection.draw.canvas import Box, Sheet
from regard.inspection.draw.style import FONT, LONGEST, MARGIN
from regard.inspection.trace.scene import Scene

VEIL = 0.88
"""How thick it is where nothing was looked at."""
SIDE, LARGE, GAP = 84.0, 336.0, 10.0
"""The longer side of a small picture, that of a large one, and what lies between small ones."""
TOP = 56.0
"""Where a drawing begins, below its title."""
SMALL = 11.0
BARS = 10
"""Classes that are drawn."""
MOST = 6000
"""Places of one drawing that are told one by one. Where there are more, those of about one shade are one mark."""
SHADES = 12


@dataclass
class Glance:
    """One small picture: where somebody looked, a row of an attention over all tokens."""

    weights: np.ndarray
    who: str = ""
    """Who looked; in the tooltips."""
    below: str = ""
    told: str = ""
    """The tooltip of what stands below."""
    pick: str = ""
    """The head of which a page may show more (`KIND LAYER HEAD`)."""
    bold: bool = False


def overview(
    scene: Scene,
    rows: Sequence[tuple[str, Sequence[Glance]]],
    columns: Sequence[str],
    title: str,
    probabilities: Mapping[str, float],
    notes: Sequence[str] = (),
) -> Sheet:
    """The picture with its places, the classes, and a row of glances for each layer."""
    sheet = _sheet("regard-patches", "where a model looked at a picture", title)
    top = TOP
    wide, high = scene.size(2 * SIDE)
    _whole(sheet, scene, (MARGIN, top, wide, high))
    _bars(sheet, probabilities, MARGIN + wide + 28, top)
    y = max(sheet.height, top + high) + 20
    for note in notes:
        sheet.words(paper.shortened(note, 100), MARGIN, y, "faint", size=SMALL)
        y += 16
    _multiples(sheet, scene, rows, columns, y)
    return sheet


def _multiples(
    sheet: Sheet, scene: Scene, rows: Sequence[tuple[str, Sequence[Glance]]], columns: Sequence[str], y: float
) -> None:
    wide, high = scene.size(SIDE)
    left = round(MARGIN + max((paper.length(name) * SMALL / FONT for name, _ in rows), default=0) + 10)
    told = len(scene.places) * sum(len(glances) for _, glances in rows) <= MOST
    if rows:
        y += FONT
        for i, name in enumerate(columns):
            sheet.words(name, left + i * (wide + GAP), y, "faint", size=SMALL)
        y += 6
    for name, glances in rows:
        sheet.words(name, MARGIN, y + high / 2 + 4, "faint", size=SMALL)
        for i, one in enumerate(glances):
            x = left + i * (wide + GAP)
            _glance(sheet, scene, one, (x, y, wide, high), told)
            sheet.words(one.below, x, y + high + 12, "faint", size=SMALL, tooltip=one.told, at=_pick(one))
        y += high + (22 if any(one.below for one in glances) else GAP)


def sentence(scene: Scene, glances: Sequence[Glance], title: str, across: int = 6, notes: Sequence[str] = ()) -> Sheet:
    """The picture, then once more for every word, which stands below it."""
    sheet = _sheet("regard-patches", "where a model looked at a picture for each word", title)
    wide, high = scene.size(1.4 * SIDE if scene.rows > 1 else LARGE)
    across = across if scene.rows > 1 else 1
    longest = max((paper.length(paper.label(one.below)) for one in glances), default=0.0)
    step = round(max(wide, longest) + 1.4 * GAP)
    top = TOP
    _whole(sheet, scene, (MARGIN, top, wide, high))
    sheet.words(paper.shortened(scene.name, 14), MARGIN, top + high + 16, "faint", size=SMALL, tooltip=scene.name)
    told = len(scene.places) * len(glances) <= MOST
    for number, one in enumerate(glances, 1):
        row, column = divmod(number, across)
        x, y = MARGIN + column * step, top + row * (high + 36)
        _glance(sheet, scene, one, (x, y, wide, high), told)
        sheet.words(paper.label(one.below), x, y + high + 17, bold=one.bold, tooltip=one.told, at=_pick(one))
    y = sheet.height + 18
    for note in notes:
        sheet.words(paper.shortened(note, 100), MARGIN, y, "faint", size=SMALL)
        y += 16
    return sheet


def one_look(scene: Scene, weights: np.ndarray, query: int | None, title: str, who: str) -> Sheet:
    """One row of an attention, large. Tokens are named `place N` and who looks has a frame, for a page to change."""
    sheet = _sheet("regard-patches", "where one place looks", title)
    top = TOP
    wide, high = scene.size(LARGE)
    sheet.words(who, MARGIN, top, "faint", size=SMALL, at="who")
    top += 10
    left = MARGIN + (58 if scene.before else 0)
    boxes = _boxes(scene, (left, top, wide, high))
    if scene.before:
        beside = (MARGIN, top, 44.0, 44.0)
        boxes = [beside, *boxes]
        sheet.boxes([beside], "ink")
        sheet.words("class", MARGIN + 22, top + 60, "faint", "middle", SMALL)
    sheet.image(scene.pixels, (left, top, wide, high))
    shares = shared(weights, scene.before)
    for number, (box, value, share) in enumerate(zip(boxes, weights, shares)):
        told = f"{scene.tokens[number]}: {value!s}"
        sheet.boxes([box], "veil", VEIL * (1 - float(share)), told, f"place {number}")
    if query is not None:
        sheet.boxes(_frame(boxes[query]), "ink", at=f"looker {query}")
    return sheet


def every_look(scene: Scene, weights: np.ndarray, title: str, pictured: bool = True) -> Sheet:
    """Of every place where it looks, (places, places): each small picture stands where its place is.

    Without `pictured` only the values are drawn, in ink above zero and in rust below.
    """
    sheet = _sheet("regard-patches", "where every place looks", title)
    top = TOP
    wide, high = scene.size(min(SIDE, max(30.0, 560.0 / max(scene.rows, scene.columns))))
    maps = weights.reshape(-1, scene.rows, scene.columns)
    told = weights.size <= MOST
    for number, values in enumerate(maps):
        row, column = divmod(number, scene.columns)
        box = (MARGIN + column * (wide + 4), top + row * (high + 4), wide, high)
        if pictured:
            around = Scene("", scene.pixels, scene.rows, scene.columns, scene.places)
            _glance(sheet, around, Glance(values.ravel(), scene.places[number]), box, told)
        else:
            _values(sheet, scene, values.ravel(), box, scene.places[number], told)
        sheet.boxes(_frame(_boxes(scene, box)[number], 1.0), "ink")
    return sheet


def shared(weights: np.ndarray, before: int = 0) -> np.ndarray:
    """How clear each place is, 0 to 1: its part of the greatest weight of a place."""
    finite = np.nan_to_num(weights, nan=0.0, posinf=0.0, neginf=0.0)
    greatest = float(finite[before:].max(initial=0.0))
    return (finite / greatest).clip(0, 1) if greatest > 0 else np.zeros_like(finite)


def _sheet(kind: str, about: str, title: str) -> Sheet:
    sheet = Sheet(kind, about, paper.shortened(title, 4 * LONGEST))
    sheet.words(sheet.title, MARGIN, MARGIN + FONT, bold=True)
    return sheet


def _whole(sheet: Sheet, scene: Scene, box: Box) -> None:
    """The picture by itself, and a faint line between its places."""
    sheet.image(scene.pixels, box)
    x, y, wide, high = box
    seen = 0.6 if len(scene.places) <= 100 else 0.25
    for column in range(1, scene.columns):
        across = x + column * wide / scene.columns
        sheet.line((across, y, across, y + high), "veil", seen, 0.7)
    for row in range(1, scene.rows):
        down = y + row * high / scene.rows
        sheet.line((x, down, x + wide, down), "veil", seen, 0.7)


def _bars(sheet: Sheet, probabilities: Mapping[str, float], left: float, top: float) -> None:
    shown = list(probabilities.items())[:BARS]
    if not shown:
        return
    names = max(paper.length(paper.label(name)) for name, _ in shown) * 0.93
    for number, (name, probability) in enumerate(shown):
        y = top + number * 17
        told = f"{name}: {np.float32(probability)!s}"
        sheet.words(paper.label(name), left + names, y + 11, anchor="end", size=13, bold=not number, tooltip=told)
        sheet.boxes([(left + names + 8, y + 2, 120, 10)], "tile", tooltip=told)
        sheet.boxes([(left + names + 8, y + 2, 120 * probability, 10)], "ink", tooltip=told)
        sheet.words(f"{probability:.3f}", left + names + 136, y + 11, "faint", size=SMALL)


def _glance(sheet: Sheet, scene: Scene, one: Glance, box: Box, told: bool) -> None:
    sheet.image(scene.pixels, box)
    boxes = _boxes(scene, box)
    weights = one.weights[scene.before :]
    shares = shared(weights)
    if told:
        for place, value, share, name in zip(boxes, weights, shares, scene.places):
            at = f"of {one.pick}" if one.pick else ""
            said = f"{one.who} → {name}: {value!s}"
            sheet.boxes([place], "veil", VEIL * (1 - float(share)), said, at)
        return
    shades: dict[int, list[Box]] = {}
    for place, share in zip(boxes, shares):
        shades.setdefault(round((1 - float(share)) * SHADES), []).append(place)
    for shade, places in sorted(shades.items()):
        if shade:
            sheet.boxes(places, "veil", VEIL * shade / SHADES)


def _values(sheet: Sheet, scene: Scene, values: np.ndarray, box: Box, who: str, told: bool) -> None:
    """Values between -1 and 1, in ink and rust."""
    sheet.boxes([box], "tile")
    finite = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
    for place, value, share, name in zip(_boxes(scene, box), values, finite, scene.places):
        tooltip = f"{who} and {name}: {value!s}" if told else ""
        sheet.boxes([place], "rust" if share < 0 else "ink", min(1.0, abs(float(share))), tooltip)


def _boxes(scene: Scene, box: Box) -> list[Box]:
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


def _pick(one: Glance) -> str:
    return f"pick {one.pick}" if one.pick else ""
