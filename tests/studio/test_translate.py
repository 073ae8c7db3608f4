"""The studio's first page: a sentence translated as it is typed, and where every model looked (R20, R22, S9)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from studio.browsing import SHAPES, Studio, asked, open_view, running_studio, until, watched
from studio.speaking import HOSTILE, PERSIAN, SENTENCE, write_speaker

import regard
from regard.data.batching import pad
from regard.layers.capture import capture
from regard.types import BEGIN, END

HUES = [0, 4, 8, 2, 6, 10, 1, 5, 9, 3, 7, 11]
PANEL = ".panel:not(.outdated) .pair"


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    home = tmp_path_factory.mktemp("speakers")
    folders = {shape: write_speaker(home / shape, shape) for shape in SHAPES}
    options = [part for folder in folders.values() for part in ("--model", str(folder))]
    with running_studio("--only", "--runs", str(home / "runs"), *options) as running:
        running.folders = folders
        yield running


def words(page: Any, side: str, model: str = "tiny-transformer") -> Any:
    """The words of a side, as buttons."""
    return page.locator(f'.panel[data-model="{model}"] .words').nth(0 if side == "source" else 1).locator("button")


def numbers(buttons: Any, name: str = "weight") -> list[float]:
    return [float(button.get_attribute(f"data-{name}")) for button in buttons.all()]


def pictured(page: Any) -> list[float]:
    """The values of the matrix, row by row."""
    told = page.locator(".matrix svg .ink title").all_text_contents()
    return [float(one.rpartition(": ")[2]) for one in told]


def opened(page: Any, studio: Studio, **state: Any) -> None:
    open_view(page, studio, "translate", PANEL, **{"model": "tiny-transformer", "text": SENTENCE, **state})


def independently(folder: Path, of: int = 0) -> tuple[np.ndarray, list[float], list[str], list[str]]:
    """Where a model looked, by a pass of our own: the search's hypothesis fed one token at a time, as a search does.

    Weights by layer, head, target token and source token; the probabilities; the tokens of both sides.
    """
    translator = regard.load(folder, device="cpu", task="translate", engine="torch")
    source = translator.encode(SENTENCE)
    settings = translator.recipe.decoding
    best = translator.search([source], beam=4, n_best=4, length_penalty=1.0, max_length=settings.max_length)[0][of]
    model, written = translator.model, [*best.ids, END]
    ids, mask = pad([[*source, END]])
    found = []
    with torch.inference_mode(), capture(model) as seen:
        state = model.decoder.start(model.encode(ids, mask), beams=1, capacity=len(written))
        for token in [BEGIN, *best.ids]:
            logits, state = model.decoder.step(torch.tensor([[token]]), state)
            found.append(logits[0, -1].softmax(-1))
    sure = [float(row[token]) for row, token in zip(found, written, strict=True)]
    cross = [
        torch.cat(calls, -2)[0].numpy() for name, calls in seen.items() if name.endswith("cross_attention.weights")
    ]
    pieces = translator.tokenizer.pieces
    return np.stack(cross), sure, pieces(written), pieces([*source, END])


def by_words(weights: np.ndarray, target: list[str], source: list[str]) -> np.ndarray:
    """Summed over a source word's tokens, averaged over a target word's: a word begins where a space did."""
    columns, rows = (
        np.cumsum([token.startswith("▁") or not at for at, token in enumerate(side[:-1])]) - 1
        for side in (source, target)
    )
    found = np.zeros((rows[-1] + 1, columns[-1] + 1))
    for t, row in enumerate(rows):
        for s, column in enumerate(columns):
            found[row, column] += weights[t, s] / np.count_nonzero(rows == row)
    return found


def test_R20_the_numbers_of_words_are_the_models(page, studio):
    opened(page, studio)
    weights, sure, target, source = independently(studio.folders["tiny-transformer"])
    expected = by_words(weights.mean((0, 1)), target, source)
    written, read = words(page, "target"), words(page, "source")
    assert (written.count(), read.count()) == expected.shape and expected.shape[0] < len(target) - 1
    for t in range(written.count()):
        written.nth(t).hover()
        shown = numbers(read)
        np.testing.assert_allclose(shown, expected[t], atol=1e-5)
        rest = 1 - sum(shown)  # the weight of the end token
        said = page.locator(".said").inner_text()
        assert f"{100 * max(shown):.0f} %" in said or f"{100 * max(shown):.1f} %" in said
        assert ("end of sentence" in said) == (rest >= 0.005)
        assert page.locator(".links path").count() == sum(weight >= 0.02 for weight in shown)
    for s in range(read.count()):
        read.nth(s).hover()
        np.testing.assert_allclose(numbers(written), expected[:, s], atol=1e-5)


def test_R20_the_numbers_of_tokens_and_of_one_head(page, studio):
    weights, sure, target, source = independently(studio.folders["tiny-transformer"])
    for state, expected in (({}, weights.mean((0, 1))), ({"layer": 1, "head": 2}, weights[1, 2])):
        opened(page, studio, units="tokens", **state)
        written, read = words(page, "target"), words(page, "source")
        assert (written.count(), read.count()) == expected.shape
        np.testing.assert_allclose(numbers(written, "sure"), sure, atol=1e-5)
        for t in range(written.count()):
            written.nth(t).hover()
            np.testing.assert_allclose(numbers(read), expected[t], atol=1e-5)
            assert sum(numbers(read)) == pytest.approx(1, abs=1e-5)
    page.get_by_label("head").select_option("0")
    page.wait_for_url(re.compile("head=0"))
    page.wait_for_selector(PANEL)
    words(page, "target").nth(0).hover()
    np.testing.assert_allclose(numbers(words(page, "source")), weights[1, 0, 0], atol=1e-5)
    page.wait_for_selector(".matrix figure")
    while not np.allclose(drawn := pictured(page), weights[1, 0].ravel(), atol=1e-5):  # until the new one is there
        assert np.allclose(drawn, weights[1, 2].ravel(), atol=1e-5)
        page.wait_for_timeout(50)


def test_R20_another_hypothesis_shows_its_own_alignment(page, studio):
    opened(page, studio)
    found = page.locator(".found li button")
    texts = [one.locator(".text").inner_text() for one in found.all()]
    answer = asked(studio, "translate", model="tiny-transformer", text=SENTENCE, n_best=4)
    assert texts == [one["text"] for one in answer["candidates"]]
    assert numbers(found, "score") == [one["score"] for one in answer["candidates"]]
    found.nth(1).focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".found li:nth-child(2) button[aria-pressed=true]")
    assert found.nth(1).evaluate("one => one === document.activeElement")
    weights, sure, target, source = independently(studio.folders["tiny-transformer"], of=1)
    expected = by_words(weights.mean((0, 1)), target, source)
    assert " ".join(words(page, "target").locator("bdi").all_inner_texts()) == texts[1]
    words(page, "target").nth(1).hover()
    np.testing.assert_allclose(numbers(words(page, "source")), expected[1], atol=1e-5)
    page.go_back()
    page.wait_for_selector(".found li:nth-child(1) button[aria-pressed=true]")


def test_typing_on_takes_back_what_was_asked(page, studio):
    """The first question hangs; the text goes on; what is shown is the answer to the last text, and never another."""
    opened(page, studio)
    given_up: list[str] = []
    page.on("requestfailed", lambda request: given_up.append(request.post_data or ""))
    hanging = []
    page.route("**/ask/translate", lambda route: hanging.append(route))
    box, panel = page.locator("#typed"), page.locator(".panel")
    box.fill("oui, bien")
    page.wait_for_selector(".panel.outdated[aria-busy=true]")
    while not hanging:
        page.wait_for_timeout(20)
    assert panel.get_attribute("data-text") == SENTENCE  # the old one stays, faded
    page.unroute("**/ask/translate")
    box.press_sequentially(" sûr !")
    page.wait_for_selector('.panel[data-text="oui, bien sûr !"]:not(.outdated)')
    assert any('"oui, bien"' in asked for asked in given_up)
    assert panel.get_attribute("aria-busy") == "false"
    expected = asked(studio, "translate", model="tiny-transformer", text="oui, bien sûr !", n_best=4)
    assert words(page, "target").locator("bdi").all_inner_texts() == expected["target"]["words"]
    page.go_back()  # all that was typed in one go is one step
    page.wait_for_selector(f'.panel[data-text="{SENTENCE}"]:not(.outdated)')
    assert box.input_value() == SENTENCE


def test_models_side_by_side(page, studio):
    opened(page, studio)
    for name in ("tiny-bahdanau", "tiny-none", "tiny-universal"):
        page.locator(".companions label", has_text=name).click()
    page.wait_for_url(re.compile("with="))
    for name in SHAPES:
        page.wait_for_selector(f'.panel[data-model="{name}"]:not(.outdated)[data-text]')
        assert re.search(
            r"\d m?s · score −\d+\.\d\d · probability", page.locator(f'.panel[data-model="{name}"] .facts').inner_text()
        )
    assert "no attention" in page.locator('.panel[data-model="tiny-none"]').inner_text()
    words(page, "source").nth(2).hover()
    for name in SHAPES:
        answer = asked(studio, "translate", model=name, text=SENTENCE, n_best=4)
        assert words(page, "source", name).nth(2).get_attribute("class") == "word marked"
        if name == "tiny-none":
            assert words(page, "target", name).first.get_attribute("data-weight") is None
        else:
            assert numbers(words(page, "target", name)) == [row[2] for row in answer["weights"]["words"]]
    assert "tiny-none: nothing: this model has no attention" in page.locator(".said").inner_text()
    words(page, "target", "tiny-bahdanau").nth(1).click()
    page.locator("#models select").select_option("tiny-bahdanau")  # now it stands first, and the lists are its own
    page.wait_for_selector('.panel:first-child[data-model="tiny-bahdanau"]:not(.outdated)[data-text]')
    page.wait_for_selector(".matrix svg")
    answer = asked(studio, "translate", model="tiny-bahdanau", text=SENTENCE, n_best=4)
    assert numbers(page.locator(".found li button"), "score") == [one["score"] for one in answer["candidates"]]


def test_a_text_of_several_parts_is_looked_at_part_by_part(page, studio):
    opened(page, studio, text="Oui. Où est la gare ? Elle a lu ce livre.")
    parts = page.locator(".parts button")
    assert parts.all_inner_texts() == ["Oui.", "Où est la gare ?", "Elle a lu ce livre."]
    assert page.locator(".panel").get_attribute("data-text") == "Oui."
    parts.nth(1).click()
    page.wait_for_selector('.panel[data-text="Où est la gare ?"]:not(.outdated)')
    assert page.locator(".parts [aria-pressed=true]").inner_text() == "Où est la gare ?"


def test_R22_a_very_long_text_is_looked_at_in_parts(page, studio):
    opened(page, studio)
    page.locator("#typed").fill("oui, " * 300)
    page.wait_for_selector(".parts button >> nth=4")
    assert words(page, "source").count() <= 128


def test_a_layer_that_another_model_does_not_have_is_not_asked_for(page, studio):
    opened(page, studio, layer=1, head=3)
    page.locator("#models select").select_option("tiny-bahdanau")
    page.wait_for_selector('.panel[data-model="tiny-bahdanau"]:not(.outdated)[data-text]')
    assert not page.locator(".where").is_visible() and not page.locator(".trouble").is_visible()


def test_nothing_typed_offers_examples(page, studio):
    open_view(page, studio, "translate", ".examples button", model="tiny-transformer")
    assert page.locator(".examples button").count() == 6 and not page.locator(".results").is_visible()
    page.locator(".examples button").nth(2).click()
    page.wait_for_selector('.panel[data-text="Tu me manques."]:not(.outdated)')
    assert page.locator("#typed").input_value() == "Tu me manques."
    page.locator("#typed").fill("")
    page.wait_for_selector(".examples button")
    assert not page.locator(".results").is_visible()


def test_R22_right_to_left_and_emoji(page, studio):
    opened(page, studio, text=PERSIAN)
    read = words(page, "source")
    assert read.locator("bdi").all_inner_texts() == PERSIAN.split()
    assert read.nth(0).bounding_box()["x"] > read.nth(1).bounding_box()["x"]
    read.nth(0).focus()
    page.keyboard.press("ArrowLeft")
    assert read.nth(1).evaluate("one => one === document.activeElement")


def test_S9_whatever_is_typed_stays_words(page, studio):
    opened(page, studio, text=HOSTILE, **{"with": "tiny-bahdanau,<img src=x onerror=alert(1)>"})
    assert words(page, "source").locator("bdi").all_inner_texts() == HOSTILE.split()
    for place in range(words(page, "source").count()):
        words(page, "source").nth(place).hover()
    assert page.locator("#view img, #view script").count() == 0


def test_R22_keys_alone(page, studio):
    opened(page, studio)
    page.locator("#typed").focus()
    page.keyboard.press("Tab")
    assert words(page, "source").nth(0).evaluate("one => one === document.activeElement")
    page.keyboard.press("ArrowRight")
    assert page.locator(".said").inner_text().startswith("“\u2068a\u2069” was attended to by")
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    page.keyboard.press("Enter")  # stays when the focus goes on
    said = page.locator(".said").inner_text()
    assert "attended to" in said
    page.keyboard.press("Tab")
    page.wait_for_timeout(200)
    assert page.locator(".said").inner_text() == said
    page.keyboard.press("Escape")
    assert page.locator(".said").inner_text() == ""


def test_how_it_is_searched_can_be_changed(page, studio):
    opened(page, studio)
    page.locator(".search summary").click()
    assert page.locator(".search summary").inner_text() == "Search: beam width 4, length penalty 1"
    page.get_by_label("Beam width").fill("2")
    page.wait_for_url(re.compile("beam=2"))
    until(page, "document.querySelectorAll('.found li').length === 2")
    assert page.locator(".search summary").inner_text() == "Search: beam width 2, length penalty 1"
    page.get_by_role("button", name="Reset to defaults").click()
    until(page, "document.querySelectorAll('.found li').length === 4")


def test_R22_trouble_is_said_in_place_and_tried_again(page, studio):
    opened(page, studio)
    page.route("**/ask/translate", lambda route: route.abort())
    page.locator("#typed").fill("oui, bien sûr !")
    page.wait_for_selector(".panel .trouble")
    assert "does not answer" in page.locator(".panel .trouble").inner_text()
    assert page.locator(".panel .pair").count() == 0 and not page.locator(".found").is_visible()
    page.unroute("**/ask/translate")
    page.get_by_role("button", name="Try again").click()
    page.wait_for_selector('.panel[data-text="oui, bien sûr !"]:not(.outdated)')


def test_R22_narrow_dark_and_accessible(browser, studio):
    from axe_playwright_python.sync_playwright import Axe

    with watched(browser, studio, viewport={"width": 360, "height": 740}, color_scheme="dark") as page:
        opened(
            page,
            studio,
            text=f"{SENTENCE[:-1]} {'anticonstitutionnellement' * 4}.",
            **{"with": "tiny-bahdanau,tiny-none"},
        )
        page.wait_for_selector('.panel[data-model="tiny-none"]:not(.outdated)[data-text]')
        page.wait_for_selector(".matrix svg")
        words(page, "target").first.hover()
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 360
        found = Axe().run(page).response["violations"]
        assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []


@pytest.mark.parametrize("units", ["words", "tokens"])
def test_a_target_word_has_the_colour_of_the_source_word_it_attended_to_most(page, studio, units):
    """Asked of the server once more: the largest weight of its row says which; the end token has no colour."""
    opened(page, studio, units=units)
    told = asked(studio, "translate", model="tiny-transformer", text=SENTENCE, n_best=4)
    hues = [one.get_attribute("data-hue") for one in words(page, "source").all()]
    of_words = told["source"]["word_of"] if units == "tokens" else range(len(told["source"]["words"]))
    assert [hue is None for hue in hues] == [at >= len(of_words) for at in range(len(hues))]
    for at, word in enumerate(of_words):
        assert hues[at] == str(HUES[word])
    found = [one.get_attribute("data-hue") for one in words(page, "target").all()]
    assert found == [hues[row.index(max(row))] for row in told["weights"][units]] and len(set(found)) > 1
    assert "colour of the source word" in page.locator(".legend").inner_text()


def test_without_attention_an_underline_has_no_colour(page, studio):
    opened(page, studio, model="tiny-none")
    assert page.locator(".word[data-hue]").count() == 0 and page.locator(".word[data-sure]").count()
    assert page.locator(".legend").inner_text() == "The underline is as long as the word is probable."
