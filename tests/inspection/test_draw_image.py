"""Drawings of attention over images (V8) are read back: every value at its place (R20), names escaped (S9)."""

from __future__ import annotations

import base64
import io
import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from regard.errors import UserError
from regard.inspection.draw import patches
from regard.inspection.draw.patches import VEIL, shared
from regard.inspection.trace.base import CROSS, SOURCE, Attention, Positions, Side
from regard.inspection.trace.image import CaptionTrace, ImageTrace
from regard.inspection.trace.scene import Scene

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</script><img src=x onerror=document.title='broken'>"


def weights(*shape: int, seed: int = 5) -> np.ndarray:
    values = np.random.default_rng(seed).random(shape) ** 4
    return (values / values.sum(-1, keepdims=True)).astype(np.float32)


def scene(rows: int = 2, columns: int = 3, before: int = 1, name: str = "shoe.png", channels: int = 1) -> Scene:
    """Not square: what is transposed shows."""
    pixels = np.random.default_rng(1).integers(0, 256, (4 * rows, 4 * columns, channels)).astype(np.uint8)
    return Scene(name, pixels, rows, columns, [f"r{r} c{c}" for r in range(rows) for c in range(columns)], before)


def classified(before: int = 1, **given) -> ImageTrace:
    seen = scene(before=before, **given)
    size = len(seen.tokens)
    attention = [
        Attention(f"encoder.layers.{n}.attention", SOURCE, n, weights(2, size, size, seed=n)) for n in range(3)
    ]
    return ImageTrace(
        model="some model",
        scene=seen,
        label="boot",
        probabilities={"boot": 0.75, "bag": 0.25},
        attention=attention,
        positions=[Positions(["stem.placing.position"], "learned", weights(size, 8) - 0.1)],
    )


def captioned(name: str = "shapes.png") -> CaptionTrace:
    words = ["a", "red", "circle"]
    return CaptionTrace(
        model="some model",
        scene=scene(before=0, name=name, channels=3),
        target=Side("a red circle", [*words, "</s>"], words, [0, 1, 2]),
        read=["<s>", *words],
        probabilities=[0.9, 0.8, 0.7, 0.6],
        log_probability=-1.0,
        score=-0.5,
        finished=True,
        attention=[
            Attention(f"decoder.layers.{n}.cross_attention", CROSS, n, weights(2, 4, 6, seed=n)) for n in (0, 1)
        ],
    )


def rects(svg: str) -> list[tuple[str, float, float, float]]:
    """Of all that a veil covers: its tooltip, left, top, and how thick it is."""
    root = ElementTree.fromstring(svg)
    group = next(one for one in root.iter(f"{SVG}g") if one.get("class") == "veil")
    return [
        (one.findtext(f"{SVG}title", ""), *(float(one.get(key, "")) for key in ("x", "y", "fill-opacity")))
        for one in group.iter(f"{SVG}rect")
    ]


def values(svg: str, begins: str) -> np.ndarray:
    """The weights of one small picture, put where they stand: left to right, top to bottom."""
    found = [one for one in rects(svg) if one[0].startswith(begins)]
    across, down = sorted({one[1] for one in found}), sorted({one[2] for one in found})
    matrix = np.full((len(down), len(across)), np.nan, np.float32)
    for told, x, y, _ in found:
        matrix[down.index(y), across.index(x)] = np.float32(told.rpartition(": ")[2])
    share = matrix / matrix.max()
    for _, x, y, thick in found:
        assert thick == pytest.approx(VEIL * (1 - share[down.index(y), across.index(x)]), abs=1e-3)
    return matrix


@pytest.mark.parametrize("query", [None, 0, 4])
def test_R20_every_head_of_every_layer_is_drawn_with_its_exact_weights(query):
    seen = classified()
    svg = seen.svg(position=query)
    who = seen.scene.tokens[query or 0]
    for number, layer in enumerate(seen.attention):
        for head, matrix in enumerate(layer.weights):
            found = values(svg, f"layer {number}, head {head}: {who} → ")
            assert np.array_equal(found, matrix[query or 0, 1:].reshape(2, 3))
        mean = values(svg, f"layer {number}, mean of heads: {who} → ")
        np.testing.assert_allclose(mean, layer.weights[:, query or 0, 1:].mean(0).reshape(2, 3), rtol=1e-6)
        rolled = values(svg, f"layers 0 to {number}, rollout: {who} → ")
        np.testing.assert_allclose(rolled, seen.rollout()[number, query or 0, 1:].reshape(2, 3), rtol=1e-6)


def test_without_a_class_token_the_mean_of_all_places_is_drawn():
    seen = classified(before=0)
    found = values(seen.svg(), "layer 1, head 0: all patches → ")
    np.testing.assert_allclose(found, seen.attention[1].weights[0].mean(0).reshape(2, 3), rtol=1e-6)


def test_R20_one_head_and_one_place_large():
    seen = classified()
    svg = seen.svg(layer=2, head=1, position=3)
    found = rects(svg)
    assert [told for told, *_ in found] == [
        f"{name}: {value!s}" for name, value in zip(seen.scene.tokens, seen.attention[2].weights[1, 3])
    ]
    every = seen.view(layer=2, head=1).pictures[1].svg()
    for number, name in enumerate(seen.scene.places):
        assert np.array_equal(values(every, f"{name} → "), seen.attention[2].weights[1, number + 1, 1:].reshape(2, 3))
    for wrong, why in (
        ({"layer": 3}, "layer 3: there are only layers 0 to 2"),
        ({"head": 2}, "head 2: there are only heads 0 to 1"),
        ({"position": 7}, "this image has the"),
    ):
        with pytest.raises(UserError, match=why):
            seen.svg(**wrong)


def test_R20_a_caption_shows_where_it_looked_for_each_word():
    seen = captioned()
    svg = seen.svg()
    for number, word in enumerate(seen.target.words):
        assert np.array_equal(values(svg, f"{word} → "), seen.word_matrix()[number].reshape(2, 3))
    np.testing.assert_allclose(seen.word_matrix().sum(-1), 1, atol=1e-6)
    chosen = seen.svg(layer=1, head=0, tokens=True)
    assert np.array_equal(values(chosen, "</s> → "), seen.attention[1].weights[0, 3].reshape(2, 3))
    seen.attention.clear()
    with pytest.raises(UserError, match="no attention"):
        seen.view("patches")


def test_a_words_tokens_are_averaged():
    seen = captioned()
    seen.target = Side("a redcircle", ["a", "red", "circle", "</s>"], ["a", "redcircle"], [0, 1, 1])
    np.testing.assert_allclose(seen.word_matrix()[1], seen.token_matrix()[1:3].mean(0), rtol=1e-6)
    assert seen.word_probabilities() == pytest.approx([0.9, 0.8 * 0.7])


@pytest.mark.parametrize("seen", [classified(), captioned()])
def test_the_picture_itself_is_in_the_file_once_and_exactly(seen):
    from PIL import Image

    for text in (seen.svg(), json.dumps(seen.tree()["scene"])):
        (found,) = re.findall(r"data:image/png;base64,([A-Za-z0-9+/=]+)", text)
        pixels = np.array(Image.open(io.BytesIO(base64.b64decode(found))))
        assert np.array_equal(pixels.reshape(seen.scene.pixels.shape), seen.scene.pixels)
    uses = [one.get("href") for one in ElementTree.fromstring(seen.svg()).iter(f"{SVG}use")]
    assert len(uses) > 3 and len(set(uses)) == 1


def test_a_figure_has_the_picture_the_right_way_up():
    """The clear place of a picture keeps its colour, the others take that of the veil."""
    pixels = np.zeros((6, 9, 3), np.uint8)
    pixels[..., 0] = 255
    place = Scene("", pixels, 2, 3, [str(n) for n in range(6)])
    canvas = patches.draw_query(place, np.array([0, 0, 1, 0, 0, 0], np.float32), None, "title", "who")
    figure = canvas.figure()
    figure.set_dpi(100)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=100)
    from PIL import Image

    drawn = np.array(Image.open(file).convert("RGB")).astype(int)
    wide, high = place.size(patches.LARGE)
    colours = [
        tuple(drawn[round(66 + (r + 0.5) * high / 2), round(22 + (c + 0.5) * wide / 3)])
        for r in range(2)
        for c in range(3)
    ]
    assert [abs(colour[0] - 255) + colour[1] + colour[2] < 30 for colour in colours] == [
        False,
        False,
        True,
        *[False] * 3,
    ]


def test_positions_that_are_alike_are_drawn_so():
    seen = classified()
    picture = seen.view("positions").pictures[-1]
    assert "cosine similarity" in picture.heading
    vectors = seen.positions[0].values[1:].astype(np.float64)
    cosine = float(vectors[1] @ vectors[4] / np.linalg.norm(vectors[1]) / np.linalg.norm(vectors[4]))
    (told,) = re.findall(r"r0 c1 and r1 c1: ([-\d.e]+)", picture.svg())
    assert float(told) == pytest.approx(cosine, abs=1e-5)


@pytest.mark.parametrize("seen", [classified(name=HOSTILE), captioned(name=HOSTILE)])
@pytest.mark.parametrize("view", ["patches", "heads", ""])
def test_S9_a_files_name_stays_a_name(seen, view):
    page = seen.html(view)
    assert "onerror" not in re.sub(r"&lt;.*?&gt;|\\u003c[^\"]*", "", page)
    assert "img-src data:" in page and "http:" not in page.replace("http://www.w3.org/2000/svg", "")
    ElementTree.fromstring(seen.svg(view))


def test_many_places_are_drawn_in_a_few_marks():
    many = scene(rows=32, columns=32, before=0)
    maps = [patches.AttentionMap(weights(1024, seed=n), "who") for n in range(12)]
    svg = patches.draw_overview(many, [("layer 0", maps)], ["head"] * 12, "title", {}).svg()
    assert len(svg) < 1_500_000 and svg.count("<title>") < 100
    assert np.array_equal(shared(np.zeros(4, np.float32)), np.zeros(4)), "nothing was looked at"
