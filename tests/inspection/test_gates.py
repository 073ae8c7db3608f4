"""The drawing is read back: each gate's panel, each word's column, each unit's row, and the values in them."""

from __future__ import annotations

import io
import re
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.inspection.draw import gates as module
from regard.inspection.draw.gates import UNITS, gates_figure, gates_svg
from regard.inspection.draw.style import LIGHT
from regard.inspection.record.layers import layer_gates
from regard.layers.capture import capture
from regard.layers.recurrence import Recurrence

SVG = "{http://www.w3.org/2000/svg}"
COLOUR_OF_SIGN = {1: LIGHT["ink"], -1: LIGHT["rust"]}


def drawn(svg: str) -> list[dict]:
    """The cells with a tooltip: where, how dark (below zero in rust), and what they tell; panel by panel, word by word."""
    found = []
    for group in ElementTree.fromstring(svg).iter(f"{SVG}g"):
        for rect in group.iter(f"{SVG}rect"):
            title = rect.find(f"{SVG}title")
            if title is not None:
                sign = {LIGHT["ink"]: 1, LIGHT["rust"]: -1}[group.get("fill", "")]
                words, number = (title.text or "").rsplit(": ", 1)
                gate, unit, word = words.split(", ", 2)
                found.append(
                    {
                        "x": float(rect.get("x", "nan")),
                        "y": float(rect.get("y", "nan")),
                        "share": sign * float(rect.get("fill-opacity", "nan")),
                        "gate": gate,
                        "unit": int(unit.removeprefix("unit ")),
                        "word": word,
                        "value": float(number),
                    }
                )
    return sorted(found, key=lambda cell: (cell["y"], cell["x"]))


def texts(svg: str) -> list[tuple[str, float, float, str]]:
    """What is written: the words, where, and the tooltip."""
    found = []
    for text in ElementTree.fromstring(svg).iter(f"{SVG}text"):
        title = text.find(f"{SVG}title")
        words = (text.text or "") if title is None else (title.tail or "")
        place = float(text.get("x", 0)), float(text.get("y", 0))
        found.append((words.strip("\u2068\u2069"), *place, "" if title is None else title.text or ""))
    return found


def test_every_value_is_in_its_panel_column_and_row() -> None:
    torch.manual_seed(0)
    forget, candidate = torch.rand(3, 5), torch.rand(3, 5) * 2 - 1
    cells = drawn(gates_svg({"forget": forget, "candidate": candidate}, ["a", "b", "c"]))
    assert len(cells) == 2 * 5 * 3
    expected = [(gate, unit, word) for gate in ("forget", "candidate") for unit in range(5) for word in range(3)]
    for cell, (gate, unit, word) in zip(cells, expected, strict=True):
        value = {"forget": forget, "candidate": candidate}[gate][word, unit].item()
        assert (cell["gate"], cell["unit"], cell["word"]) == (gate, unit, "abc"[word])
        assert np.float32(cell["value"]) == np.float32(value)
        assert cell["share"] == pytest.approx(value, abs=0.0051)
    assert len({cell["x"] for cell in cells}) == 3 and len({cell["y"] for cell in cells}) == 10


def test_words_stand_over_their_columns_and_names_beside_their_panels() -> None:
    svg = gates_svg({"input": torch.rand(2, 4), "forget": torch.rand(2, 4)}, ["le", "chat"])
    at = {words: (x, y) for words, x, y, _ in texts(svg)}
    cells = drawn(svg)
    for word in ("le", "chat"):
        xs = [cell["x"] for cell in cells if cell["word"] == word]
        assert min(xs) < at[word][0] < min(xs) + module.COLUMN and at[word][1] < cells[0]["y"]
    for gate in ("input", "forget"):
        ys = [cell["y"] for cell in cells if cell["gate"] == gate]
        assert min(ys) < at[gate][1] < max(ys) + module.ROW and at[gate][0] < cells[0]["x"]


def test_means_are_over_all_units_under_each_word_exact_in_the_tooltip() -> None:
    gate = torch.tensor([[0.25, 0.5, 1.0], [-0.001, 0.0, 0.0]])
    svg = gates_svg({"update": gate}, ["x", "y"], units=2)
    cells = drawn(svg)
    found = [(words, x, y, tooltip) for words, x, y, tooltip in texts(svg) if tooltip]
    assert [words for words, *_ in found] == ["0.58", "0.00"]
    for (_, x, y, tooltip), word, values in zip(found, "xy", gate, strict=True):
        name, number = tooltip.rsplit(": ", 1)
        assert name == f"update, mean, {word}" and float(number) == pytest.approx(values.mean().item(), rel=1e-6)
        column = [cell for cell in cells if cell["word"] == word]
        assert column[0]["x"] < x < column[0]["x"] + module.COLUMN and y > max(cell["y"] for cell in column)


def test_of_many_units_those_that_vary_most_are_shown_most_on_top_and_this_is_said() -> None:
    """The same units at the same heights in every panel, chosen by how much they vary in all panels together."""
    words, width = 4, 40
    swing = torch.zeros(width)
    swing[[7, 31, 2]] = torch.tensor([0.2, 0.45, 0.3])
    still = torch.full((words, width), 0.9)  # large, but it never changes
    changing = 0.5 + swing * torch.tensor([1.0, -1.0, 1.0, -1.0])[:, None]
    svg = gates_svg({"input": still, "forget": changing}, list("abcd"), units=3)
    order = [cell["unit"] for cell in drawn(svg) if cell["word"] == "a"]
    assert order == [31, 2, 7, 31, 2, 7]
    values = {"input": still, "forget": changing}
    for cell in drawn(svg):
        assert cell["value"] == pytest.approx(values[cell["gate"]]["abcd".index(cell["word"]), cell["unit"]].item())
    said = " ".join(words for words, *_ in texts(svg))
    assert "3 of 40 units, those that vary most" in said and "the mean over all 40 units" in said
    assert len({cell["unit"] for cell in drawn(gates_svg({"g": torch.rand(2, 300)}, "ab"))}) == UNITS
    few = gates_svg({"input": still[:, :UNITS]}, list("abcd"))
    assert [cell["unit"] for cell in drawn(few) if cell["word"] == "a"] == list(range(UNITS))
    assert "vary" not in few


def test_below_zero_is_another_colour_and_the_legend_says_so() -> None:
    svg = gates_svg({"candidate": torch.tensor([[-0.5, 0.5]])}, ["w"])
    assert [cell["share"] for cell in drawn(svg)] == [-0.5, 0.5]
    assert {"-1", "1"} <= {words for words, *_ in texts(svg)}
    svg = gates_svg({"forget": torch.tensor([[0.25, 0.5]])}, ["w"])
    assert LIGHT["rust"] not in svg and {"0", "1"} <= {words for words, *_ in texts(svg)}


def test_a_state_beyond_one_is_scaled_and_tells_its_scale() -> None:
    svg = gates_svg({"cell": torch.tensor([[-4.0, 1.0]]), "forget": torch.tensor([[1.0, 0.5]])}, ["w"])
    assert [cell["share"] for cell in drawn(svg)] == [-1.0, 0.25, 1.0, 0.5]
    assert [cell["value"] for cell in drawn(svg)] == [-4.0, 1.0, 1.0, 0.5]
    assert {"cell ±4", "forget"} <= {words for words, *_ in texts(svg)}


def test_a_large_picture_has_no_tooltips_on_its_cells_but_still_on_its_means() -> None:
    small = gates_svg({"g": torch.rand(125, 24)}, ["w"] * 125)
    large = gates_svg({"g": torch.rand(126, 24)}, ["w"] * 126)
    assert len(drawn(small)) == 3000 and drawn(large) == []
    assert sum(bool(tooltip) for *_, tooltip in texts(large)) == 126
    assert len(large) < 0.7 * len(small)
    rects = [rect for rect in ElementTree.fromstring(large).iter(f"{SVG}rect") if rect.get("height") == str(module.ROW)]
    assert len(rects) == 126 * 24


HOSTILE = ["</script>", "<img src=x>", "a&b", "\"'>", "]]>", "שלום!", "👩‍👩‍👧‍👦", "日本語"]


def test_any_text_stays_text() -> None:
    svg = gates_svg({"<b>": torch.rand(len(HOSTILE), 2)}, HOSTILE, title="</svg><script>alert(1)</script>")
    names = {element.tag.removeprefix(SVG) for element in ElementTree.fromstring(svg).iter()}
    assert names == {"svg", "style", "g", "rect", "text", "title"}
    assert not re.search(r"<(script|img|b)\b", svg)
    assert [words for words, *_ in texts(svg) if words in HOSTILE] == HOSTILE
    assert ">\u2068שלום!\u2069<" in svg and "unit 0, \u2068שלום!\u2069: " in svg


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(exclude_categories=[]), max_size=40), st.text(st.characters(exclude_categories=[])))
def test_every_string_gives_valid_xml(word: str, title: str) -> None:
    ElementTree.fromstring(gates_svg({word: torch.rand(1, 1)}, [word], title).encode())


def test_everything_lies_within_the_picture() -> None:
    words, slanted = ["a", "considerably", "anticonstitutionnellement"], 0
    for tokens, title in ((words, "title"), (["a"], ""), (["a"], "x" * 90), (["a"] * 9 + words, "")):
        root = ElementTree.fromstring(gates_svg({"candidate": torch.randn(len(tokens), 30)}, tokens, title))
        width, height = float(root.get("width", 0)), float(root.get("height", 0))
        for element in [*root.iter(f"{SVG}rect"), *root.iter(f"{SVG}text")]:
            x, y = float(element.get("x", 0)), float(element.get("y", 0))
            assert 0 <= x + float(element.get("width", 0)) <= width
            assert 0 <= y + float(element.get("height", 0)) <= height
        for text in root.iter(f"{SVG}text"):
            size = float(text.get("font-size", 14))
            across = 0.45 * size * len("".join(text.itertext())) if text.get("text-anchor") is None else 0.0
            if "rotate" in text.get("transform", ""):
                slanted += 1
                across *= 0.71
                assert float(text.get("y", 0)) - across > 0
            assert float(text.get("x", 0)) + across < width
    assert slanted >= len(words)


def test_odd_values_are_drawn_as_nothing_and_told() -> None:
    cells = drawn(gates_svg({"g": torch.tensor([[float("nan"), 0.5, float("inf")]])}, ["w"]))
    assert [cell["share"] for cell in cells] == [0.0, 0.5, 0.0]
    assert np.isnan(cells[0]["value"]) and cells[2]["value"] == float("inf")


def test_what_does_not_fit_is_refused() -> None:
    for draw in (gates_svg, gates_figure):
        with pytest.raises(ValueError, match="'input' of .2, 3. does not fit 1 words"):
            draw({"input": torch.zeros(2, 3)}, ["a"])
        with pytest.raises(ValueError, match="one width"):
            draw({"input": torch.zeros(1, 3), "forget": torch.zeros(1, 2)}, ["a"])
        with pytest.raises(ValueError, match="none"):
            draw({}, ["a"])


def test_figure_shows_the_same_panels_and_takes_any_text() -> None:
    torch.manual_seed(0)
    gates = {"forget": torch.rand(3, 30), "candidate": torch.rand(3, 30) * 2 - 1}
    tokens = ["$x^$", "a_b", "\x00\ud800"]
    figure = gates_figure(gates, tokens, title="$^$", units=4)
    cells = drawn(gates_svg(gates, tokens, units=4))
    order = [cell["unit"] for cell in cells if cell["word"] == "a_b" and cell["gate"] == "forget"]
    for axes, (name, values) in zip(figure.axes, gates.items()):
        mesh = axes.collections[0]
        shown = np.asarray(mesh.get_array()).reshape(4, 3)
        np.testing.assert_allclose(shown, values.T[order].numpy(), rtol=1e-6)
        assert axes.get_ylabel() == name and (mesh.norm.vmin, mesh.norm.vmax) == (-1, 1)
        low, high = axes.get_ylim()
        assert low > high  # the unit that varies most is on top
        assert [t.get_text() for t in axes.get_xticklabels()] == [f"{mean:.2f}" for mean in values.mean(1).tolist()]
    assert [t.get_text() for t in figure.axes[0].child_axes[0].get_xticklabels()][:2] == tokens[:2]
    alone = gates_figure({"forget": gates["forget"]}, tokens).axes[0].collections[0]
    assert alone.norm.vmin == 0
    np.testing.assert_allclose(alone.cmap(1.0), figure.axes[0].collections[0].cmap(1.0))
    file = io.BytesIO()
    figure.savefig(file, dpi=50)
    assert file.getvalue().startswith(b"\x89PNG")


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_what_a_layer_did_is_captured_and_drawn(direction: str) -> None:
    """Of a padded batch, the second sentence: its own words only, and the forget gate where it was opened by hand."""
    torch.manual_seed(0)
    stack = Recurrence(4, 6, 2, "lstm", direction)
    with torch.no_grad():
        stack.layer(1)[0].bias[6:12] = 30.0  # the rows of the forget gate
    words = ["Je", "suis", "étudiant"]
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    with capture(stack) as seen, torch.no_grad():
        outputs, _ = stack(torch.randn(2, 5, 4), mask)
    gates = layer_gates(seen, "cells.1", sentence=1, words=len(words))
    assert list(gates) == ["input", "forget", "candidate", "output", "hidden", "cell"]
    torch.testing.assert_close(gates["hidden"], outputs[1, :3])
    cells = drawn(gates_svg(gates, words, "second layer"))
    assert [cell["word"] for cell in cells[:3]] == words
    assert all(cell["share"] == 1.0 for cell in cells if cell["gate"] == "forget")
    hidden = [cell["value"] for cell in cells if cell["gate"] == "hidden"]
    torch.testing.assert_close(torch.tensor(hidden).reshape(6, 3).T, outputs[1, :3])


def test_steps_of_a_search_are_joined_and_other_layers_left_out() -> None:
    steps = [torch.rand(2, 1, 3) for _ in range(4)]
    seen = {"d.cells.1.update": steps, "d.cells.10.update": [torch.rand(2, 9, 3)], "d.cells.1.deep.x": steps}
    found = layer_gates(seen, "d.cells.1", sentence=1)
    assert list(found) == ["update"]
    torch.testing.assert_close(found["update"], torch.cat(steps, 1)[1])
