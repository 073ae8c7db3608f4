"""The alignment matrix (V1) is read back: an XML parser finds every word, every weight, and nothing else."""

from __future__ import annotations

import io
import re
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.inspection.draw.heatmap import LONGEST, matrix_figure, matrix_svg

SVG = "{http://www.w3.org/2000/svg}"


def cells(svg: str) -> list[ElementTree.Element]:
    """The rectangles with a tooltip, row by row."""
    return [rect for rect in ElementTree.fromstring(svg).iter(f"{SVG}rect") if rect.find(f"{SVG}title") is not None]


def tooltip(cell: ElementTree.Element) -> str:
    return cell.find(f"{SVG}title").text or ""  # type: ignore[union-attr]


def texts(svg: str) -> list[str]:
    return ["".join(text.itertext()).strip("\u2068\u2069") for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_every_weight_is_there_exactly() -> None:
    weights = torch.rand(3, 4).softmax(-1)
    drawn = cells(matrix_svg(weights, list("abcd"), list("xyz")))
    assert len(drawn) == 12
    for cell, value, (row, column) in zip(drawn, weights.flatten().tolist(), np.ndindex(3, 4), strict=True):
        words, number = tooltip(cell).rsplit(": ", 1)
        assert words == f"{'abcd'[column]} → {'xyz'[row]}"
        assert np.float32(number) == np.float32(value)


def test_darkness_is_the_weight() -> None:
    weights = [[0.1, 0.4], [0.2, 0.0]]
    opacity = [float(cell.get("fill-opacity", "nan")) for cell in cells(matrix_svg(weights, "ab", "xy"))]
    assert opacity == pytest.approx([0.25, 1.0, 0.5, 0.0], abs=1e-3)
    opacity = [float(cell.get("fill-opacity", "nan")) for cell in cells(matrix_svg(weights, "ab", "xy", scale=1.0))]
    assert opacity == pytest.approx([0.1, 0.4, 0.2, 0.0], abs=1e-3)


def test_source_on_top_target_at_the_left() -> None:
    svg = matrix_svg(torch.eye(3, 4), ["s0", "s1", "s2", "s3"], ["t0", "t1", "t2"])
    labels = ElementTree.fromstring(svg).iter(f"{SVG}text")
    at = {label.text: (float(label.get("x", 0)), float(label.get("y", 0))) for label in labels}
    drawn = cells(svg)
    for column in range(4):
        x, width = float(drawn[column].get("x", 0)), float(drawn[column].get("width", 0))
        assert x < at[f"s{column}"][0] < x + width and at[f"s{column}"][1] < float(drawn[0].get("y", 0))
    for row in range(3):
        y, height = float(drawn[4 * row].get("y", 0)), float(drawn[4 * row].get("height", 0))
        assert y < at[f"t{row}"][1] < y + height and at[f"t{row}"][0] < float(drawn[0].get("x", 0))


HOSTILE = ["</script>", "<img src=x onerror=alert(1)>", "{{7*7}}", "a&b", "\"'>", "]]>", "<!--", "-->"]
WORLD = ["שלום!", "العالم،", "👩‍👩‍👧‍👦", "日本語", "e\u0301", "▁the"]


def test_any_text_stays_text() -> None:
    words = HOSTILE + WORLD
    svg = matrix_svg(torch.eye(len(words)), words, words, title="</svg><script>alert(1)</script>")
    names = {element.tag.removeprefix(SVG) for element in ElementTree.fromstring(svg).iter()}
    assert names == {"svg", "style", "g", "rect", "text", "title"}
    assert not re.search(r"<(script|img)|href|url\(|javascript:", svg)
    short = [word for word in words if len(word) <= LONGEST]
    assert [text for text in texts(svg) if text in short] == short + short  # on top, then at the left
    for word, cell in zip(words, cells(svg)[:: len(words) + 1], strict=True):
        assert word in tooltip(cell)


def test_right_to_left_words_are_isolated_and_others_untouched() -> None:
    svg = matrix_svg([[1.0, 0.0]], ["שלום!", "word!"], ["x"])
    assert ">\u2068שלום!\u2069<" in svg and ">word!<" in svg
    assert "\u2068שלום!\u2069 → x: 1.0" in svg


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(exclude_categories=[]), max_size=40), st.text(st.characters(exclude_categories=[])))
def test_every_string_gives_valid_xml(word: str, title: str) -> None:
    """Control characters and lone surrogates too; and the file can be written."""
    ElementTree.fromstring(matrix_svg([[0.5]], [word], [word], title).encode())


def test_long_labels_are_shortened_but_kept_in_the_tooltip() -> None:
    word = "x" * 1000
    svg = matrix_svg([[1.0]], [word], [word], title=word)
    texts_drawn = texts(svg)[1:]
    assert max(map(len, texts_drawn)) == LONGEST and tooltip(cells(svg)[0]).startswith(word)
    assert float(ElementTree.fromstring(svg).get("width", 0)) < 1500


def test_everything_lies_within_the_picture() -> None:
    """By the parser's numbers: cells and label anchors; slanted labels by their estimated length."""
    words = ["a", "considerably", "longer", "anticonstitutionnellement"]
    root = ElementTree.fromstring(matrix_svg(torch.eye(4), words, words, "title"))
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    for element in [*root.iter(f"{SVG}rect"), *root.iter(f"{SVG}text")]:
        x, y = float(element.get("x", 0)), float(element.get("y", 0))
        assert 0 <= x + float(element.get("width", 0)) <= width and 0 <= y + float(element.get("height", 0)) <= height
    slanted = [text for text in root.iter(f"{SVG}text") if "rotate" in text.get("transform", "")]
    assert len(slanted) == len(words)
    for text in slanted:
        reach = 0.45 * 14 * len(text.text or "") * 0.71  # a narrow guess: about half the font's size a letter
        assert float(text.get("x", 0)) + reach < width and float(text.get("y", 0)) - reach > 0


def test_short_labels_stand_upright_and_long_ones_lean() -> None:
    assert "rotate" not in matrix_svg([[1.0]], ["le"], ["the"])
    assert "rotate" in matrix_svg([[1.0]], ["maison"], ["house"])


def test_odd_values_are_drawn_as_nothing_and_told() -> None:
    drawn = cells(matrix_svg([[float("nan"), 0.5, float("inf"), -1.0]], "abcd", ["x"]))
    assert [float(cell.get("fill-opacity", "nan")) for cell in drawn] == [0.0, 1.0, 0.0, 0.0]
    assert [tooltip(cell).split(": ")[1] for cell in drawn] == ["nan", "0.5", "inf", "-1.0"]


def test_tensors_of_any_kind() -> None:
    weights = torch.tensor([[0.5]], dtype=torch.bfloat16, requires_grad=True)
    assert "a → x: 0.5<" in matrix_svg(weights, ["a"], ["x"])
    assert cells(matrix_svg(torch.zeros(0, 0), [], [])) == [] and cells(matrix_svg([[0.0]], ["a"], ["x"]))


def test_shape_must_fit_the_labels() -> None:
    for draw in (matrix_svg, matrix_figure):
        with pytest.raises(ValueError, match="2 rows and 1 columns"):
            draw(torch.zeros(1, 2), ["a"], ["x", "y"])


def test_figure_shows_the_same_matrix_and_takes_any_text() -> None:
    weights = torch.rand(2, 3)
    figure = matrix_figure(weights, ["$x^$", "a_b", "\x00\ud800"], ["</script>", "$_$"], title="$^$")
    axes = figure.axes[0]
    np.testing.assert_array_equal(np.asarray(axes.collections[0].get_array()).reshape(2, 3), weights.numpy())
    low, high = axes.get_ylim()
    assert low > high  # the first target word is on top
    assert [label.get_text() for label in axes.get_xticklabels()][:2] == ["$x^$", "a_b"]  # not mathematics
    file = io.BytesIO()
    figure.savefig(file, dpi=50)
    assert file.getvalue().startswith(b"\x89PNG")
