"""Drawings of the next-token distribution (V7), of token probabilities and of gradients (V9) hold the exact values."""

from __future__ import annotations

import json
import math
from xml.etree import ElementTree

import numpy as np
import pytest

from regard.errors import UserError
from regard.inspection.draw.canvas import Canvas
from regard.inspection.draw.gradients import draw_gradients
from regard.inspection.draw.next_token import BAR, DRAWN, draw_next_token
from regard.inspection.trace.base import SOURCE, TARGET, Attention, Side
from regard.inspection.trace.gradients import Gradients, Track
from regard.inspection.trace.next_token import Distribution, Guess, NextToken, Option
from regard.inspection.trace.text import LanguageModelTrace, TextTrace

SVG = "{http://www.w3.org/2000/svg}"
WORLD = ["Ein", "</script>", "کتاب", "<img onerror=alert(1)>", "語", "\x07", "\ud800"]


def marks(drawn: Canvas | str, tag: str = "rect") -> dict[str, tuple[ElementTree.Element, str]]:
    """Marks that have a name, with what they tell."""
    root = ElementTree.fromstring(drawn if isinstance(drawn, str) else drawn.svg())
    named = [one for one in root.iter(SVG + tag) if one.get("data-at")]
    return {one.get("data-at"): (one, one.findtext(f"{SVG}title") or "") for one in named}  # type: ignore[misc]


def some(words: list[str] = WORLD, **more) -> Distribution:
    shares = np.random.default_rng(1).dirichlet(np.ones(len(words))).astype(np.float32)
    tokens = [
        NextToken(word, word, math.log(p), float(p), float(p), float(p), float(p)) for word, p in zip(words, shares)
    ]
    tokens.sort(key=lambda one: -one.drawn)
    return Distribution(1.0, 0, 1.0, tokens, **more)


def look(words: list[str] = WORLD) -> LanguageModelTrace:
    weights = np.full((2, len(words) + 1, len(words) + 1), 1 / (len(words) + 1), np.float32)
    return LanguageModelTrace(
        model=words[1],
        source=Side(" ".join(words), words, words, list(range(len(words)))),
        read=["<s>", *words],
        guesses=[Guess(word, word, 0.25, [Option(word, 0.25), Option(words[1], 0.125)]) for word in words],
        next=some(words),
        attention=[Attention("decoder.layers.0.attention", TARGET, 0, weights)],
        gradients=[
            Gradients(len(words), words[1], -0.5, [Track("decoder.embedding", "vector", TARGET, weights[0, 0])])
        ],
    )


def test_bars_are_as_long_as_the_probabilities_and_tell_them_exactly():
    found = some()
    found.tokens[-1] = NextToken("cut", "cut", -3.5, 0.125, 0.0625, 0.0, 0.0)
    drawn = marks(draw_next_token(found))
    longest = max(one.drawn for one in found.tokens)
    for number, one in enumerate(found.tokens):
        bar, told = drawn[f"next {number}"]
        assert float(bar.get("width")) == pytest.approx(BAR * one.drawn / longest, abs=0.06)
        numbers = [told.rpartition(f"{name} ")[2].split(",")[0] for name in ("logit", "probability", "sampled with")]
        assert [np.float32(text) for text in numbers] == [np.float32(one.logit), one.probability, one.drawn]
    assert "cut" in draw_next_token(found).svg() and "0.0625" in told


def test_of_very_many_only_the_first_are_drawn_and_the_rest_is_summed():
    found = some([f"w{i}" for i in range(DRAWN + 10)], others=100, rest={"drawn": 0.0})
    text = "".join(ElementTree.fromstring(draw_next_token(found).svg()).itertext())
    left = 100 * sum(one.drawn for one in found.tokens[DRAWN:])
    assert f"and 110 more, sampled with {left:.2f} % together" in text


@pytest.mark.parametrize("view", ["next", "heads", "gradients"])
def test_S9_no_words_become_elements(view):
    seen = look()
    page = seen.html(view)
    page.encode()
    assert page.count("<script") == 2 and "<img" not in page
    for one in seen.view(view).pictures:
        ElementTree.fromstring(one.svg())


def test_a_text_that_looks_at_itself_needs_nobody_to_say_so():
    assert "layer 0, head 1" in look().svg("heads", layer=0, head=1)


def test_views_know_what_they_are_drawn_from():
    tree = json.loads(look().json(look().view("next").parts))
    assert tree["next"]["tokens"] and tree["guesses"] and "attention" not in tree and "gradients" not in tree


@pytest.mark.parametrize("scale", ["shared", "own", "logarithmic"])
def test_bars_of_gradients_stand_as_high_as_they_are_long(scale):
    norms = np.array([1e-4, 1e-2, 0.0, 1.0], np.float32)
    tracks = [Track("m", "vector", SOURCE, norms), Track("n", "vector", TARGET, np.array([0.5], np.float32))]
    drawn = marks(draw_gradients(Gradients(0, "x", -1.0, tracks), {SOURCE: list("abcd"), TARGET: ["<s>"]}, scale))
    highs = [float(drawn[f"source vector {i}"][0].get("height")) for i in range(4)]
    most = highs[3]
    assert float(drawn["target vector 0"][0].get("height")) == pytest.approx(
        most * 0.5 if scale == "shared" else most, rel=0.2
    )
    # From 1e-5, the power of ten below the least, to 1.
    expected = [0, 0.01, 0, 1] if scale != "logarithmic" else [0.2, 0.6, 0, 1]
    assert [high / most for high in highs] == pytest.approx(expected, abs=0.03)
    for i, norm in enumerate(norms):
        assert np.float32(drawn[f"source vector {i}"][1].rpartition(": ")[2]) == norm


def test_gradients_that_are_no_numbers_are_drawn_as_nothing():
    norms = np.array([np.nan, np.inf, 0.0], np.float32)
    for scale in ("shared", "own", "logarithmic"):
        draw_gradients(
            Gradients(0, "x", math.nan, [Track("m", "hidden", TARGET, norms)]), {TARGET: list("abc")}, scale
        ).svg()


def test_gradients_are_computed_for_once_and_in_bounds():
    trace, computed = look(), []
    trace.gradients = []

    def compute(position: int) -> Gradients:
        computed.append(position)
        return Gradients(position, "x", -1.0)

    with pytest.raises(UserError, match="no gradients"):
        trace.gradients_of()
    trace.compute_gradients = compute
    assert trace.gradients_of().position == len(WORLD) and trace.gradients_of(0) is trace.gradients_of(0)
    assert computed == [len(WORLD), 0]
    for wrong in (-1, len(WORLD) + 1):
        with pytest.raises(UserError, match=f"position {wrong}"):
            trace.gradients_of(wrong)


def test_an_answer_may_be_one_or_several():
    side = Side("a b", ["a", "b"], ["a", "b"], [0, 1])
    tags = [Guess("a", "O", 0.9, [Option("O", 0.9), Option("X", 0.1)]), Guess("b", "X", 0.6, [Option("X", 0.6)])]
    several = TextTrace(model="m", source=side, read=["a", "b"], guesses=tags, said="a [X b]").view()
    assert [one.heading for one in several.pictures] == ["all predictions", "a: O", "b: X"]
    one = TextTrace(model="m", source=side, read=["a", "b"], guesses=[Guess("", "good", 0.9, tags[0].others)])
    assert [picture.heading for picture in one.view("answer").pictures] == ["good"]
    assert marks(one.svg())["option 0"][1] == "O: 0.9"
