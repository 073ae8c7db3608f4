"""The guided experiments: a button runs one with the model at hand, and its answer is what that model gives."""

from __future__ import annotations

import re

import numpy as np
import pytest
from studio.browsing import asked, open_view, settled, until

import regard
from regard.hypothesis import penalty
from regard.inspection.trace.base import Choice
from regard.studio.app import PAGE

TEXT = "elle a lu ce livre"
BEAM_AND_GATES = ["beam", "gates"]  # have tests of their own, below
OTHERS = ["gradients", "heads", "numbers", "ponder", "positions", "steps", "translate"]


def answered(page) -> str:
    page.click(".experiment .act")
    until(
        page,
        "document.querySelector('.experiment').getAttribute('aria-busy') === 'false' &&"
        " document.querySelector('.experiment .answer').innerText.length > 1",
    )
    settled(page)
    return page.locator(".experiment .answer").inner_text()


def numbers(words: str, pattern: str) -> list[float]:
    return [float(one.replace("\u2212", "-")) for one in re.findall(pattern, words)]


def test_every_view_has_a_guided_experiment():
    views = {path.stem for path in (PAGE / "views").glob("*.js")} - {"index", "start"}
    assert {path.stem for path in (PAGE / "experiments").glob("*.js")} - {"asking"} <= views
    for name in [*BEAM_AND_GATES, *OTHERS, "language", "vision", "training"]:
        assert "experiments" in (PAGE / "views" / f"{name}.js").read_text(encoding="utf-8"), name


@pytest.mark.parametrize("view", OTHERS)
def test_an_experiment_says_what_it_found(page, studio, view):
    open_view(
        page,
        studio,
        view,
        ".experiment .act",
        model="tiny-universal" if view == "ponder" else "tiny-transformer",
        text=TEXT,
    )
    settled(page)
    for _ in range(2):
        said = answered(page)
        assert said.endswith(".") and "undefined" not in said and "NaN" not in said, said
        if page.get_by_role("button", name="Another one").count() == 0:
            break
        page.get_by_role("button", name="Another one").click()
        assert page.locator(".experiment .answer").inner_text() == ""


def test_the_head_that_is_found_is_the_one_that_attends_to_the_neighbour(page, studio):
    open_view(page, studio, "heads", ".experiment .act", model="tiny-transformer", text=TEXT)
    page.get_by_role("button", name="Another one").click()
    said = answered(page)
    look = regard.load(studio.folders["tiny-transformer"], device="cpu").inspect(TEXT)
    means = {
        (layer.layer, head): np.mean([weights[at, at - 1] for at in range(1, len(weights))])
        for layer in look.of_kind("source")
        for head, weights in enumerate(layer.weights)
    }
    best = max(means, key=lambda one: means[one])
    assert said.startswith(f"Layer {best[0]}, head {best[1]} (self-attention of the source)")
    assert f"layer={best[0]}" in page.url and f"head={best[1]}" in page.url and "attention=source" in page.url
    assert numbers(said, r"([\d.]+) % of its")[0] == pytest.approx(100 * means[best], abs=0.5)


def test_masking_a_head_is_doing_without_it(page, studio):
    state = {"attention": "source", "layer": 1, "head": 2}
    open_view(page, studio, "heads", ".experiment .act", model="tiny-transformer", text=TEXT, **state)
    said = answered(page)
    look = regard.load(studio.folders["tiny-transformer"], device="cpu").inspect(TEXT)
    found = look.what_if_of(Choice(without=["encoder.1.self.head.2"]))
    assert said.startswith("Without layer 1, head 2 (self-attention of the source)")
    for text in (found.after.target.text, look.target.text):
        assert f"“{text.strip() or '(nothing)'}”" in said
    assert numbers(said, r"goes from (\S+) to")[0] == pytest.approx(look.log_probability, abs=0.006)
    assert numbers(said, r" to (\S+)\. ")[0] == pytest.approx(found.log_probability, abs=0.006)


def test_scores_of_all_beam_widths_are_comparable(page, studio):
    """Greedy search ranks by the plain log-probability: here its score has the length penalty, too."""
    model = regard.load(studio.folders["tiny-none"], device="cpu")
    open_view(page, studio, "beam", ".experiment .act", model="tiny-none", text=TEXT)
    said = numbers(answered(page), r"score (\S+?\d\d)\b")
    found = [model.inspect(TEXT, beam=beam) for beam in (1, 2, 4, 8)]
    wanted = [one.log_probability / penalty(len(one.ids), found[0].length_penalty) for one in found]
    assert said == pytest.approx(wanted, abs=0.006)
    assert wanted[2] == pytest.approx(found[2].score, abs=1e-4)


def test_without_the_division_the_softmax_is_that_of_the_plain_dot_products(page, studio):
    open_view(page, studio, "numbers", ".experiment .act", model="tiny-transformer", text=TEXT, attention="source")
    said = numbers(answered(page), r"([\d.]+) %")
    told = asked(studio, "numbers", model="tiny-transformer", text=TEXT, attention="source")
    trace = regard.load(studio.folders["tiny-transformer"], device="cpu").inspect(TEXT)
    (dots,) = [
        one
        for one in trace.calculation_of(Choice(layer=0, head=0, attention="source", position=0)).stages
        if one.name == "dot products"
    ]
    scores = np.array([row.values[0] for row in dots.rows if row.key is not None])
    sharp = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
    most = int(np.argmax(told["weights"]))
    assert said[:2] == pytest.approx([100 * sharp[most], 100 * told["weights"][most]], abs=0.5)


def test_the_token_at_which_least_is_kept(page, studio):
    open_view(page, studio, "gates", ".experiment .act", model="tiny-bahdanau", text=TEXT)
    said = answered(page)
    look = regard.load(studio.folders["tiny-bahdanau"], device="cpu").inspect(TEXT)
    gate = look.gates[0].values["forget"].mean(1)
    assert numbers(said, r"(\d+) %") == [round(100 * float(gate.min())), round(100 * float(gate.max()))]
