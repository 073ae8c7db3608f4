"""Attribution as a matrix of signed cells, and over an image: violet made the output more likely, rust less.

Every row has its own scale, since outputs differ much in how sure they are; tooltips hold the exact values.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from regard.inspection.draw import style
from regard.inspection.draw.canvas import Box, Canvas
from regard.inspection.draw.patches import place_boxes
from regard.inspection.draw.style import FONT, MARGIN
from regard.inspection.trace.attribution import COMPLETE, Attribution
from regard.inspection.trace.base import SOURCE
from regard.inspection.trace.scene import Scene

CELL, GAP, BAR, SMALL = 32.0, 14.0, 80.0, 12.0
VEIL, OPACITY = 0.72, 0.85
"""Over an image: of the veil, and of the strongest patch."""
SPACE = "\u2581"
"""How a token shows the space before it."""
ACROSS = 5
"""Images in a row."""
SENTENCES = {
    "input_x_gradient": "Input x gradient: each vector times the gradient of the output with respect to it.",
    "integrated_gradients": "Integrated gradients: the gradients along the path from no words to these words, summed.",
    "occlusion": "Occlusion: what the output's log-probability loses when this input is blanked out.",
    "value_zeroing": "Value zeroing: what the output's log-probability loses when attention reads zeros in place of "
    "this input's values.",
    "rollout": "Attention rollout: the attention of all layers multiplied; it says what was read, not what it did.",
}


def title_of_attribution(found: Attribution) -> str:
    """`why red and not blue?`, or what the rows are."""
    names = _bare(found.rows[0]) if len(found.rows) == 1 else "these words"
    other = f" and not {style.isolated(_bare(found.contrast))}" if found.contrast else ""
    return f"Why {style.isolated(style.shortened(names, 40))}{other}?"


def sentence_of(found: Attribution) -> str:
    """What the method does, and how far integrated gradients can be trusted."""
    said = [SENTENCES.get(found.method, f"{found.method}.")]
    if found.completeness_error is not None:
        error = f"{100 * found.completeness_error:.2g} %"
        fine = found.completeness_error < COMPLETE
        said.append(
            f"Completeness error {error}{'' if fine else ', which is not below 1 %'}, with {found.steps} points."
        )
    return " ".join(said)


def draw_attribution(found: Attribution, source: str = "source") -> Canvas:
    """A row per output, a column per input: the source, then what was written before, then the share of the source."""
    canvas = Canvas("regard-attribution", "attribution of outputs to inputs", title_of_attribution(found))
    canvas.text(canvas.title, MARGIN, MARGIN + FONT, bold=True)
    columns, rows = [style.label(one) for one in found.columns], [style.label(one) for one in found.rows]
    left = MARGIN + max(map(style.length, rows)) + 10
    top = MARGIN + 4.4 * FONT + style.column_label_height(columns, CELL)
    rotated = style.needs_rotation(columns, CELL)
    ends = [left + i * CELL + (GAP if side != found.sides[0] else 0.0) for i, side in enumerate(found.sides)]
    for side in dict.fromkeys(found.sides):
        name = source if side == SOURCE else "written before"
        canvas.text(name, ends[found.sides.index(side)] + 2, MARGIN + 2.6 * FONT, "faint", size=SMALL)
    for i, (x, label) in enumerate(zip(ends, columns)):
        anchor = "start" if rotated else "middle"
        canvas.text(
            label, x + CELL / 2, top - 8, anchor=anchor, rotated=rotated, tooltip=found.columns[i], at=f"column {i}"
        )
    right = ends[-1] + CELL + GAP
    scales = np.abs(found.values).max(1, initial=0.0)
    for j, (label, row) in enumerate(zip(rows, found.values)):
        y = top + j * CELL
        about = f"{found.rows[j]}: {_quantity(found)} {found.explained[j]:.3f}"
        canvas.text(label, left - 10, y + 0.64 * CELL, anchor="end", tooltip=about, at=f"row {j}")
        for i, value in enumerate(row):
            box = (ends[i] + 1.5, y + 1.5, CELL - 3, CELL - 3)
            canvas.boxes([box], "tile")
            share = abs(float(value)) / float(scales[j]) if scales[j] > 0 else 0.0
            words = f"{style.isolated(found.columns[i])} → {style.isolated(found.rows[j])}: {value!s}"
            canvas.boxes([box], "rust" if value < 0 else "ink", share, words, f"cell {j} {i}")
        if found.has_prefix:
            _share(canvas, float(found.source_shares[j]), right, y, source)
    bottom = top + len(rows) * CELL
    if found.has_prefix:
        canvas.text(f"share of the {source}", right, top - 8, "faint", size=SMALL)
        if len(rows) > 1:
            mean = float(found.source_shares.mean())
            canvas.text(f"mean {100 * mean:.0f} %", right, bottom + 16, "faint", size=SMALL, at="mean share")
    _legend(canvas, left, bottom + 10)
    return canvas


def draw_on_image(found: Attribution, scene: Scene) -> Canvas:
    """The image once for each output, its places coloured by their values."""
    canvas = Canvas("regard-attribution", "attribution of outputs to places of an image", title_of_attribution(found))
    canvas.text(canvas.title, MARGIN, MARGIN + FONT, bold=True)
    single = scene.rows == 1
    wide, high = scene.size(336.0 if len(found.rows) == 1 or single else 150.0)
    across = 1 if single else ACROSS
    places = [side == SOURCE for side in found.sides]
    step = max([wide, *(style.length(style.label(name)) for name in found.rows)]) + 16
    for j, (name, row) in enumerate(zip(found.rows, found.values[:, places])):
        down, over = divmod(j, across)
        box: Box = (MARGIN + over * step, MARGIN + 2.4 * FONT + down * (high + 40), wide, high)
        canvas.image(scene.pixels, box)
        canvas.boxes([box], "veil", VEIL)  # so that both colours stand out, whatever those of the image
        scale = float(np.abs(row).max(initial=0.0))
        for i, (place, value) in enumerate(zip(place_boxes(scene, box), row)):
            share = abs(float(value)) / scale if scale > 0 else 0.0
            words = f"{scene.places[i]} → {name}: {value!s}"
            canvas.boxes([place], "rust" if value < 0 else "ink", OPACITY * share, words, f"cell {j} {i}")
        canvas.text(style.label(name), box[0], box[1] + high + 18, at=f"row {j}")
    _legend(canvas, MARGIN, canvas.height + 14)
    return canvas


def with_one_column(found: Attribution, name: str) -> Attribution:
    """All places of an image as one column, so that it can be compared with the words."""
    places = np.array([side == SOURCE for side in found.sides])
    whole = np.abs(found.values[:, places]).sum(1, keepdims=True)
    sides = [SOURCE, *(side for side in found.sides if side != SOURCE)]
    columns = [name, *(column for column, place in zip(found.columns, places) if not place)]
    values = np.concatenate([whole, found.values[:, ~places]], 1)
    return replace(found, columns=columns, sides=sides, values=values)


def _share(canvas: Canvas, share: float, x: float, y: float, source: str) -> None:
    words = f"share of the {source}: {share!s}"
    canvas.boxes([(x, y + CELL / 2 - 5, BAR, 10)], "tile", tooltip=words)
    canvas.boxes([(x, y + CELL / 2 - 5, BAR * share, 10)], "ink", 0.85, words)
    canvas.text(f"{100 * share:.0f} %", x + BAR + 6, y + 0.64 * CELL, "faint", size=SMALL)


def _legend(canvas: Canvas, x: float, y: float) -> None:
    for name, colour in (("more likely", "ink"), ("less likely", "rust")):
        canvas.boxes([(x, y, 12, 12)], colour)
        canvas.text(name, x + 18, y + 10.5, "faint", size=SMALL)
        x += 30 + style.length(name)


def _bare(token: str) -> str:
    return token.lstrip(SPACE) or token


def _quantity(found: Attribution) -> str:
    return "log p less that of the other" if found.contrast else "log p"
