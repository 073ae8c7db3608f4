"""Sample pictures, drawn by the package: shapes for the captioner, clothes for the ViT.

    samples() -> dict[str, bytes]     all of them as PNG files by name; shapes() and clothes() are its two halves

Shapes are six pictures of 64 x 64 in colour, `shapes-1` to `shapes-6`, drawn by data/format/made_shapes.py with a seed
that no recipe uses. Clothes are six of 28 x 28 in grey, `t-shirt`, `trousers`, `dress`, `sneaker`, `bag` and
`boot`: silhouettes drawn here, light on black as in Fashion-MNIST, none of which is in that data set.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

SEED = 13
COUNT = 6
SIDE = 28
FINE = 16
"""Clothes are drawn at this scale and then shrunk, for soft edges."""

Points = Sequence[tuple[float, float]]


def samples() -> dict[str, bytes]:
    """Every sample picture as a PNG file, by name."""
    return {**shapes(), **clothes()}


@cache
def shapes() -> dict[str, bytes]:
    """Two shapes per picture, for a captioner."""
    from PIL import Image

    from regard.data.format.made_shapes import MadeShapes

    made = MadeShapes(count=COUNT, seed=SEED, size=64, colour=True, captions=True, shapes=2).read([], "samples")
    return {f"shapes-{number}": _png(Image.fromarray(one.input)) for number, one in enumerate(made, 1)}


@cache
def clothes() -> dict[str, bytes]:
    """One piece of clothing per picture, for a classifier."""
    return {name: _png(_drawn(name)) for name in ("t-shirt", "trousers", "dress", "sneaker", "bag", "boot")}


def _png(image: Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def _drawn(name: str) -> Image:
    from PIL import Image, ImageDraw

    image = Image.new("L", (SIDE * FINE, SIDE * FINE))
    _PIECES[name](ImageDraw.Draw(image))
    return image.resize((SIDE, SIDE), Image.Resampling.BOX)


def _fill(draw: ImageDraw, points: Points, shade: int) -> None:
    """A filled polygon, with corners in pixels of the small picture."""
    draw.polygon([(x * FINE, y * FINE) for x, y in points], fill=shade)


def _line(draw: ImageDraw, points: Points, shade: int, width: float) -> None:
    draw.line([(x * FINE, y * FINE) for x, y in points], fill=shade, width=round(width * FINE), joint="curve")


def _both_sides(points: Points) -> Points:
    """The left half of an outline, from top to bottom, and its mirror image."""
    return [*points, *((SIDE - x, y) for x, y in reversed(points))]


def _t_shirt(draw: ImageDraw) -> None:
    sleeve = [(10.5, 0.5), (6, 2), (2, 9), (6, 11.5), (7.5, 9), (7, 27.5)]
    _fill(draw, _both_sides(sleeve), 205)
    draw.ellipse([10.8 * FINE, -2.5 * FINE, 17.2 * FINE, 3 * FINE], fill=0)  # where the head goes
    _line(draw, [(7.5, 9), (8.2, 4)], 165, 0.6)
    _line(draw, [(20.5, 9), (19.8, 4)], 165, 0.6)


def _trousers(draw: ImageDraw) -> None:
    _fill(draw, [(9, 0.5), (19, 0.5), (20.5, 27.5), (15.8, 27.5), (14, 8), (12.2, 27.5), (7.5, 27.5)], 215)
    _fill(draw, [(9, 0.5), (19, 0.5), (19.1, 2), (8.9, 2)], 170)  # the waistband


def _dress(draw: ImageDraw) -> None:
    _fill(draw, _both_sides([(10.3, 0.5), (9.8, 5), (10.8, 10.5), (7.5, 27.5)]), 205)
    _fill(draw, [(12, 0), (16, 0), (14, 4)], 0)
    for x in (10.5, 14, 17.5):  # pleats
        _line(draw, [(14 + (x - 14) * 0.5, 12), (x, 27.5)], 165, 0.6)


def _sneaker(draw: ImageDraw) -> None:
    _fill(
        draw, [(0.5, 17.5), (5, 15.5), (10, 12), (13, 10), (16, 12), (21, 12.5), (26, 10), (27.5, 13), (27.5, 17)], 195
    )
    _fill(draw, [(0.5, 17), (27.5, 16.5), (27.5, 19.5), (1, 19.5)], 240)  # the sole
    _line(draw, [(9, 13.5), (12, 16)], 110, 0.7)
    _line(draw, [(11.2, 12), (14.2, 14.8)], 110, 0.7)


def _bag(draw: ImageDraw) -> None:
    draw.arc([9 * FINE, 2 * FINE, 19 * FINE, 20 * FINE], 180, 360, fill=190, width=round(1.3 * FINE))
    _fill(draw, [(3, 11), (25, 11), (26.5, 26), (1.5, 26)], 205)
    _line(draw, [(2.6, 15), (25.4, 15)], 150, 0.7)
    _fill(draw, [(13, 14), (15, 14), (15, 16.5), (13, 16.5)], 245)  # the clasp


def _boot(draw: ImageDraw) -> None:
    _fill(
        draw, [(14, 3), (25.5, 3), (25, 12), (26.5, 22), (15, 22), (1.5, 22.5), (1.5, 18.5), (8, 16), (13.5, 11)], 200
    )
    _fill(draw, [(1.5, 22), (14, 21.5), (18, 21.5), (26.5, 21.5), (26.5, 25), (19, 25), (18, 23), (2, 23.5)], 110)
    _line(draw, [(14, 4.2), (25.4, 4.2)], 150, 0.8)


_PIECES = {"t-shirt": _t_shirt, "trousers": _trousers, "dress": _dress, "sneaker": _sneaker, "bag": _bag, "boot": _boot}
