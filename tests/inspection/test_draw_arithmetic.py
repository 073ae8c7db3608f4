"""V3 and V4 as pictures: what stands in them is the data, to the last digit."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from regard.inspection.draw.arithmetic import MOST, draw_calculation, draw_stage
from regard.inspection.draw.steps import draw_steps
from regard.inspection.trace.arithmetic import Calculation, Row, Stage, product_sum
from regard.inspection.trace.base import CROSS
from regard.inspection.trace.translation import Alternative

SVG = "{http://www.w3.org/2000/svg}"


def marks(svg: str) -> dict[str, str]:
    """The tooltip of every mark by its name."""
    found = {}
    for one in ElementTree.fromstring(svg).iter():
        told = one.find(f"{SVG}title")
        if "data-at" in one.attrib and told is not None:
            found[one.attrib["data-at"]] = told.text or ""
    return found


def made(tokens: int = 3, width: int = 64) -> Calculation:
    random = np.random.default_rng(1)
    values = random.normal(size=(tokens, width)).astype(np.float32)
    scores = values @ values[0]
    weights = np.exp(scores - scores.max())
    weights /= weights.sum()
    names = [f"t{j}" for j in range(tokens)]
    keys = [Row(name, values[j], "k", key=j) for j, name in enumerate(names)]
    how = [product_sum(values[0].tolist(), row.tolist(), float(score)) for row, score in zip(values, scores)]
    products = [Row(name, scores[j : j + 1], "q · k", how=[how[j]], key=j) for j, name in enumerate(names)]
    masked = [Row(name, np.array([-np.inf], np.float32), "score", "masked", key=j) for j, name in enumerate(names)]
    stages = [
        Stage("query", "q = W x", "What it asks.", [Row("q", values[0])]),
        Stage("keys", "k = W x", "What they offer.", keys),
        Stage("dot products", "q · k", "How alike they are.", products),
        Stage("mask", "-∞", "What is hidden.", masked, "all hidden"),
    ]
    return Calculation("decoder.layers.0.attention", CROSS, 0, 2, 4, 0, "t0", names, weights, stages, 1.5e-7)


def test_V4_every_number_stands_where_it_is_told_exactly() -> None:
    calculation = made()
    found = marks(draw_calculation(calculation).svg())
    for place, value in enumerate(calculation.stages[0].rows[0].values):
        assert found[f"1 0 {place}"] == f"q[{place}] = {value!s}"
    for j, row in enumerate(calculation.stages[1].rows):
        for place, value in enumerate(row.values):
            told = found[f"2 {j} key {j} {place}"]
            assert told == f"k[{place}] of t{j} = {value!s}" and np.float32(told.rpartition("= ")[2]) == value
    assert found["4 1 key 1 0"] == "score of t1 = masked"


def test_V4_a_dot_product_says_its_terms() -> None:
    calculation = made()
    query, key = (calculation.stages[1].rows[j].values for j in (0, 2))
    told = marks(draw_stage(calculation, 2).svg())["3 2 key 2 0"]
    named, how = told.split("\n")
    assert named == f"q · k of t2 = {calculation.stages[2].rows[2].values[0]!s}"
    terms, _, total = how.partition(" = ")
    first = [tuple(map(float, one.split(" × "))) for one in terms.split(" + ")[:3]]
    np.testing.assert_allclose(first, list(zip(query[:3], key[:3])), rtol=1e-3)
    assert "64 terms" in terms and float(total) == pytest.approx(float(query @ key), rel=1e-3)


def test_the_sum_of_few_products_is_whole() -> None:
    assert product_sum([2.0, -3.0], [0.5, 1.0], -2.0) == "2 × 0.5 + -3 × 1 = -2"
    assert product_sum([1.0] * 4, [2.0] * 4, 8.5, "0.5").endswith("… (4 terms) + 0.5 = 8.5")


def test_of_many_tokens_those_with_the_greatest_weights_are_drawn() -> None:
    calculation = made(tokens=2 * MOST)
    drawn = {int(at.split()[3]) for at in marks(draw_stage(calculation, 1).svg()) if " key " in at}
    assert drawn == set(np.argsort(-calculation.weights, kind="stable")[:MOST].tolist())
    assert f"{MOST} of {2 * MOST} tokens" in draw_calculation(calculation).svg()


def test_of_long_vectors_of_tokens_the_first_numbers_are_drawn() -> None:
    calculation = made(width=130)
    found = marks(draw_calculation(calculation).svg())
    assert "1 0 129" in found and "2 1 key 1 63" in found and "2 1 key 1 64" not in found
    assert "the first 64 of 130 numbers" in draw_calculation(calculation).svg()


def test_below_zero_is_rust() -> None:
    calculation = made()
    root = ElementTree.fromstring(draw_stage(calculation, 0).svg())
    values, drawn = calculation.stages[0].rows[0].values, 0
    for group in root.iter(f"{SVG}g"):
        for one in group.iter(f"{SVG}rect"):
            if at := re.fullmatch(r"1 0 (\d+)", one.get("data-at", "")):
                assert group.get("class") == ("rust" if values[int(at[1])] < 0 else "ink")
                share = abs(values[int(at[1])]) / np.abs(values).max()
                assert float(one.get("fill-opacity", "")) == pytest.approx(share, abs=1e-3)
                drawn += 1
    assert drawn == len(values) and min(values) < 0 < max(values)


def test_V3_a_row_for_every_step() -> None:
    random = np.random.default_rng(2)
    weights = random.dirichlet(np.ones(3), 2).astype(np.float32)
    alternatives = [
        [Alternative(5, "the", 0.5), Alternative(6, "a", 0.25)],
        [Alternative(7, "cat", 0.75), Alternative(8, "dog", 0.125)],
    ]
    sheet = draw_steps(["a", "cat"], [0.25, 0.75], alternatives, ["le", "chat", "</s>"], weights)
    found = marks(sheet.svg())
    assert found["token 0"] == "step 0: a: 0.25" and found["or 0 0"] == "step 0, or the: 0.5"
    assert "or 0 1" not in found and found["or 1 0"] == "step 1, or dog: 0.125"  # what was written is no alternative
    for t, s in np.ndindex(2, 3):
        assert np.float32(found[f"{t} {s}"].rpartition(": ")[2]) == weights[t, s]
    without = draw_steps(["a", "cat"], [0.25, 0.75], alternatives, ["le", "chat", "</s>"], None)
    assert "0 0" not in marks(without.svg()) and "token 1" in marks(without.svg())
    assert without.width < sheet.width


def test_a_calculation_is_exported_whole() -> None:
    from inspection.test_views import WORLD
    from inspection.test_views import made as made_look

    look = made_look()
    assert json.loads(look.json())["calculations"] == []
    (found,) = json.loads(look.json(look.view("numbers", layer=0, head=1).parts))["calculations"]
    assert [stage["name"] for stage in found["stages"]] == ["keys", "mask", "softmax"] and found["head"] == 1
    assert found["stages"][1]["rows"][0]["values"] == [None] and found["stages"][1]["rows"][0]["note"] == "masked"
    np.testing.assert_array_equal(
        np.array([row["values"][0] for row in found["stages"][2]["rows"]], np.float32), look.calculations[0].weights
    )
    assert found["keys"] == [*WORLD, "</s>"]
