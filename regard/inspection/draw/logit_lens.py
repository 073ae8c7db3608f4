"""The logit lens as a table: a row per layer, a column per position, the likeliest token in each cell."""

from __future__ import annotations

import numpy as np

from regard.inspection.draw import style
from regard.inspection.draw.canvas import Canvas
from regard.inspection.draw.style import FONT, LONGEST, MARGIN
from regard.inspection.trace.logit_lens import LogitLens

ROW, SMALL, GAP = 44.0, 11.0, 3.0
LONGEST_TOKEN = 12


def draw_logit_lens(lens: LogitLens, title: str = "") -> Canvas:
    """Darker: more likely. A cell whose token is the one that was written has a frame below it; tooltips have more."""
    canvas = Canvas("regard-lens", "logit lens", style.shortened(title, 4 * LONGEST))
    y = MARGIN
    if canvas.title:
        canvas.text(canvas.title, MARGIN, y + FONT, bold=True)
        y += 2 * FONT
    left = MARGIN + max(style.length(layer.name) for layer in lens.layers) + 14
    shown = [
        [style.isolated(style.shortened(options[0].token, LONGEST_TOKEN)) for options in layer.likeliest]
        for layer in lens.layers
    ]
    read, written = (
        [style.isolated(style.shortened(token, LONGEST_TOKEN)) for token in tokens]
        for tokens in (lens.read, lens.written)
    )
    wide = [
        max(44.0, *(style.length(one) + 14 for one in column)) for column in zip(read, written, *shown)
    ]  # a column is as wide as its longest token
    starts = np.cumsum([left, *wide]).tolist()
    canvas.text("read", left - 14, y + FONT, "faint", "end", SMALL)
    for x, size, token in zip(starts, wide, read):
        canvas.text(token, x + size / 2, y + FONT, "faint", "middle")
    y += FONT + 12
    for number, (layer, tokens) in enumerate(zip(lens.layers, shown)):
        canvas.text(layer.name, left - 14, y + ROW / 2 + 4, anchor="end")
        for position, (x, size, token) in enumerate(zip(starts, wide, tokens)):
            options = layer.likeliest[position]
            likely = ", ".join(f"{style.isolated(one.token)} {one.probability:.3g}" for one in options)
            rank, probability = layer.ranks[position], layer.probabilities[position]
            own = f"{style.isolated(lens.written[position])} has {probability:.3g} (rank {rank})"
            at, tooltip = f"lens {number} {position}", f"{layer.name}, position {position}: {likely}; {own}"
            box = (x + GAP / 2, y + GAP / 2, size - GAP, ROW - GAP)
            share = min(1.0, max(0.0, options[0].probability))
            canvas.boxes([box], "tile")
            canvas.boxes([box], "ink", 0.35 * share, tooltip, at)
            canvas.text(token, x + size / 2, y + 20, anchor="middle", bold=rank == 1, tooltip=tooltip)
            canvas.text(f"{100 * share:.0f} %", x + size / 2, y + 34, "text", "middle", SMALL)
            if rank == 1:
                canvas.boxes([(box[0], box[1] + box[3] - 3, box[2], 3)], "ink")
        y += ROW
    canvas.text("written", left - 14, y + FONT + 4, "faint", "end", SMALL)
    for x, size, token in zip(starts, wide, written):
        canvas.text(token, x + size / 2, y + FONT + 4, anchor="middle", bold=True)
    return canvas
