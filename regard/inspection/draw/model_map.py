"""The map of a model as a picture: its blocks from top to bottom, the encoder on the left, the decoder on the right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from regard.inspection.draw import style
from regard.inspection.draw.canvas import Canvas
from regard.inspection.draw.style import FONT, LONGEST, MARGIN
from regard.inspection.trace.base import CROSS, SOURCE, TARGET
from regard.inspection.trace.model_map import Block, ModelMap

WIDE, BETWEEN = 430.0, 70.0
"""The width of a column, and the room between the two."""
HIGH, ARROW, PAD, SMALL = 30.0, 22.0, 10.0, 12.0
SHADES = {"attention": 0.22, "cell": 0.22, "ssru": 0.22, "feed_forward": 0.14, "norm": 0.05}
SHADE = 0.09
MOST_TOKENS = 12
"""Tokens that are named at the top and the bottom of a column."""


def draw_map(
    model: ModelMap, tokens: Mapping[str, Sequence[str]], outputs: Sequence[str], title: str = "", layer: int = 0
) -> Canvas:
    """All blocks, and inside one layer of each side its own. Each block is named `block PATH`.

    `tokens` are those that enter on each side, by SOURCE and TARGET; `outputs` what leaves at the end.
    """
    canvas = Canvas("regard-map", "the blocks of the model", style.shortened(title, 4 * LONGEST))
    top = MARGIN
    if title:
        canvas.text(canvas.title, MARGIN, top + FONT, bold=True)
        top += 2 * FONT
    both = bool(model.source and model.target)
    crossed: list[tuple[float, float]] = []
    memory: tuple[float, float] | None = None
    x = MARGIN
    for side, blocks in ((SOURCE, model.source), (TARGET, model.target)):
        if not blocks:
            continue
        column = _Column(canvas, x, top, str(len(tokens[side])) if tokens.get(side) else side[0].upper())
        heading = {SOURCE: "What it reads", TARGET: "What it has written so far"} if both else {side: "What it reads"}
        column.words(heading[side], tokens.get(side, ()))
        for block in blocks:
            column.block(block, layer, x, WIDE)
        crossed += column.sides
        if both and side == SOURCE:
            column.arrow()
            memory = (x + WIDE, column.y + HIGH / 2)
            column.box("memory", "Memory", f"{column.count} x {model.memory}", x, WIDE, SHADE)
        else:
            column.arrow()
            column.words("What it says", outputs)
        x += WIDE + BETWEEN
    if memory and crossed:
        _lead(canvas, memory, crossed)
    return canvas


def _lead(canvas: Canvas, memory: tuple[float, float], ends: Sequence[tuple[float, float]]) -> None:
    """A line from the memory to every block that attends to it."""
    middle = memory[0] + BETWEEN / 2
    highest = min(memory[1], *(y for _, y in ends))
    lowest = max(memory[1], *(y for _, y in ends))
    canvas.line((*memory, middle, memory[1]), "ink", 0.6)
    canvas.line((middle, highest, middle, lowest), "ink", 0.6)
    for end in ends:
        canvas.line((middle, end[1], *end), "ink", 0.6)
        _point(canvas, *end, "right")


def _point(canvas: Canvas, x: float, y: float, way: str) -> None:
    for sign in (-1, 1):
        ends = (x, y, x - 6, y + sign * 4) if way == "right" else (x, y, x + sign * 4, y - 6)
        canvas.line(ends, "ink" if way == "right" else "veil", 0.8, 1.5)


class _Column:
    """Blocks from top to bottom; `y` is where the next one begins."""

    def __init__(self, canvas: Canvas, x: float, y: float, count: str):
        self.canvas, self.x, self.y, self.count = canvas, x, y, count
        self.width = 0
        """Numbers for each token that left the block before; 0: tokens."""
        self.sides: list[tuple[float, float]] = []
        """The middle of the left edge of each block that the memory enters."""

    def words(self, heading: str, words: Sequence[str]) -> None:
        self.canvas.text(heading, self.x, self.y + SMALL, "faint", size=SMALL)
        self.y += SMALL + 6
        shown = [style.label(word) for word in words[:MOST_TOKENS]] + (["…"] if len(words) > MOST_TOKENS else [])
        at = self.x
        for word in shown:
            long = style.length(word) + 10
            if at > self.x and at + long > self.x + WIDE:
                at, self.y = self.x, self.y + FONT + 8
            self.canvas.boxes([(at, self.y, long, FONT + 6)], "tile")
            self.canvas.text(word, at + 5, self.y + FONT)
            at += long + 4
        self.y += FONT + 8

    def arrow(self, inside: bool = False) -> None:
        """To the next block, with the size of what flows along it."""
        x = self.x + WIDE / 2
        self.canvas.line((x, self.y, x, self.y + ARROW), "veil", 0.8, 1.5)
        _point(self.canvas, x, self.y + ARROW, "down")
        size = f"{self.count} x {self.width}" if self.width else f"{self.count} tokens"
        self.canvas.text(size, x + 8, self.y + ARROW / 2 + 4, "faint", size=SMALL)
        self.y += ARROW

    def block(self, block: Block, layer: int, x: float, wide: float) -> None:
        if block.kind == "bridge":  # beside the flow of the tokens: only the memory enters it
            self.y += 6
        else:
            self.arrow()
        if not block.blocks or block.layer != layer:
            inside = ", ".join(dict.fromkeys(one.title for one in block.blocks if one.kind != "norm"))
            if block.kind == "bridge" or any(one.attention == CROSS for one in block.walk()):
                self.sides.append((x, self.y + HIGH / 2))
            self.box(block.path, block.title, block.detail or inside, x, wide, SHADES.get(block.kind, SHADE), block)
        else:
            began = self.y
            self.canvas.text(block.title, x + PAD, self.y + FONT + 4, bold=True)
            self.y += FONT + 10
            parallel = all(one.kind == "cell" for one in block.blocks)
            for number, one in enumerate(block.blocks):
                if number and parallel:
                    self.y += 6
                    self.box(one.path, one.title, one.detail, x + PAD, wide - 2 * PAD, SHADES["cell"], one)
                else:
                    self.block(one, layer, x + PAD, wide - 2 * PAD)
            self.y += PAD
            self.canvas.boxes([(x, began, wide, self.y - began)], "tile", at=f"block {block.path}")
        if block.kind == "pooling":
            self.count = "1"
        if block.kind != "bridge":
            self.width = 0 if block.kind == "search" else block.width or self.width

    def box(
        self, path: str, title: str, detail: str, x: float, wide: float, shade: float, block: Block | None = None
    ) -> None:
        about = f"{title}: {detail}" if detail else title
        if block and block.parameters:
            about += f"; {block.parameters:,} parameters"
        self.canvas.boxes([(x, self.y, wide, HIGH)], "ink", shade, tooltip=about, at=f"block {path}")
        self.canvas.text(title, x + PAD, self.y + 20)
        room = int((wide - 3 * PAD - style.length(title)) / style.length("n") * FONT / SMALL)
        if detail and room > 3:
            end = style.shortened(detail, room)
            self.canvas.text(end, x + wide - PAD, self.y + 20, "faint", "end", SMALL)
        self.y += HIGH
