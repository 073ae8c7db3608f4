"""The studio's tab Fill-in: what stands there is what transformers computes for the same masked language model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from studio.browsing import open_view, running_studio, settled, until, watched

import regard
from regard.errors import UserError
from regard.studio.questions import fill
from tests.interchange.made_encoders import VARIANTS, make

ONE = "das [MASK] ist schön"
TWO = "das _ ist _ schön"
MODEL = "tiny-bert"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of an imported BERT with random weights, our model of it, and the model and tokenizer of transformers."""
    home: Path = tmp_path_factory.mktemp("masked")
    theirs, tokenizer = make(home / "theirs", VARIANTS["bert"])
    theirs.set_attn_implementation("eager")  # others return no weights
    folder = regard.import_model(home / "theirs", home / MODEL)
    return folder, regard.load(folder, device="cpu"), theirs.eval(), tokenizer


def ask(made, text: str, **more):
    return fill.answer(made[1], {"model": MODEL, "text": text, **more})


def by_transformers(made, text: str) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """The probabilities of all tokens at each mask, and the attention of all layers: (layers, heads, n, n)."""
    *_, theirs, tokenizer = made
    encoded = tokenizer(text.replace("_", tokenizer.mask_token), return_tensors="pt")
    places = (encoded.input_ids[0] == tokenizer.mask_token_id).nonzero()[:, 0].tolist()
    with torch.inference_mode():
        told = theirs(**encoded, output_attentions=True)
    return told.logits[0, places].softmax(-1).numpy(), torch.cat(told.attentions).numpy(), places


@pytest.mark.parametrize("text", [ONE, TWO])
def test_the_candidates_of_each_blank_have_the_probabilities_of_transformers(made, text):
    answer = ask(made, text, count=5)
    expected, _, places = by_transformers(made, text)
    assert len(answer["blanks"]) == len(places) == len(answer["written"])
    for candidates, row in zip(answer["blanks"], expected):
        assert len(candidates) == 5
        vocabulary = made[3].get_vocab()
        for one in candidates:  # a word, or the end of one
            found = [row[vocabulary[name]] for name in (one["word"], f"##{one['word']}") if name in vocabulary]
            assert any(one["probability"] == pytest.approx(value, rel=1e-3) for value in found)
    between, written = answer["between"], [*answer["written"], ""]
    assert "".join(part + blank for part, blank in zip(between, written)) == text
    best = [*(candidates[0]["word"] for candidates in answer["blanks"]), ""]
    assert "".join(part + word for part, word in zip(between, best)) == answer["text"]


def test_a_blank_attends_as_in_transformers(made):
    _, attention, places = by_transformers(made, TWO)
    for blank, layer, head in ((0, 1, 2), (1, 0, None), (1, None, None), (0, None, 3)):
        told = ask(
            made, TWO, blank=blank, **{name: at for name, at in (("layer", layer), ("head", head)) if at is not None}
        )
        chosen = attention[slice(None) if layer is None else slice(layer, layer + 1)]
        chosen = chosen[:, slice(None) if head is None else slice(head, head + 1), places[blank]]
        np.testing.assert_allclose(told["weights"], chosen.mean((0, 1)), atol=1e-5)
        assert told["tokens"][told["position"]] == "_" and (told["layers"], told["heads"]) == (2, 4)


def test_what_cannot_be_filled_is_said(made):
    assert ask(made, "das ist schön")["blanks"] == []  # the page asks for a blank while one types
    for text, more, message in (
        ("_ " * 17, {}, "17 blanks; the studio fills at most 16"),
        ("_ " + "das " * 30, {}, "but this model reads 22"),
        (ONE, {"blank": 1}, "blank: is 1, but there are 1"),
        (ONE, {"blank": 0, "head": 4}, "head: is 4, but there are 4"),
        ("das ist schön", {"blank": 0}, "there is no blank"),
    ):
        with pytest.raises(UserError, match=message):
            ask(made, text, **more)
    with pytest.raises(UserError, match="masked language model"):
        fill.answer(object(), {"model": MODEL, "text": ONE})


def test_the_tab_fills_blanks_as_one_types_and_shows_what_a_blank_attended_to(browser, made, tmp_path):
    with (
        running_studio("--only", "--runs", str(tmp_path), "--model", str(made[0])) as studio,
        watched(browser, studio, viewport={"width": 1280, "height": 900}) as page,
    ):
        axe = pytest.importorskip("axe_playwright_python.sync_playwright")
        open_view(page, studio, "fill", ".bars", model=MODEL, text=ONE)
        settled(page)
        page.locator("textarea").fill(TWO)
        until(page, "document.querySelectorAll('.blanks section').length === 2")
        answer = ask(made, TWO)
        rows = "all => all.map(one => [one.querySelector('bdi').textContent, Number(one.dataset.value)])"
        for number, candidates in enumerate(answer["blanks"]):
            told = page.locator(".blanks section").nth(number).locator(".bars button").evaluate_all(rows)
            assert [word for word, _ in told] == [one["word"] for one in candidates]
            assert [value for _, value in told] == pytest.approx([one["probability"] for one in candidates], rel=1e-4)
        weights = "[...document.querySelectorAll('.reading .word')].map(one => Number(one.dataset.weight))"
        until(page, f"{weights}.length === {len(ask(made, TWO, blank=0)['tokens'])}")
        page.get_by_label("Blank").and_(page.locator("select")).select_option("2")
        page.get_by_label("Layer").and_(page.locator("select")).select_option("1")
        page.get_by_label("Head").and_(page.locator("select")).select_option("2")
        wanted = ask(made, TWO, blank=1, layer=1, head=2)["weights"]
        until(page, f"Math.abs({weights}[1] - {wanted[1]}) < 1e-6")
        assert page.evaluate(weights) == pytest.approx(wanted, abs=1e-6)
        found = axe.Axe().run(page).response["violations"]
        assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []
        page.locator(".blanks section").nth(1).locator(".bars button").first.focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        once = f"das _ ist {answer['blanks'][1][1]['word']} schön"
        assert page.input_value("textarea") == once
        until(page, "document.querySelectorAll('.blanks section').length === 1")
        assert page.evaluate("document.activeElement.closest('.bars') !== null")
        page.click(".filled button")
        until(page, "document.querySelector('.filled').innerText.startsWith('There is no blank')")
        assert page.input_value("textarea") == ask(made, once)["text"]
        page.go_back()
        page.go_back()
        until(page, "document.querySelectorAll('.blanks section').length === 2")
        assert page.input_value("textarea") == TWO


def test_without_such_a_model_the_tab_says_how_to_get_one(page, studio):
    open_view(page, studio, "fill", "code")
    assert "regard train bert-english" in page.locator("#view").inner_text()
    page.click("nav a:text-is('Heads')")
    page.wait_for_selector("#view figure")
    assert page.input_value("#models select") == "tiny-transformer"
