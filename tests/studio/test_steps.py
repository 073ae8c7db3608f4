"""V3 and V4 in a browser: a translation token by token with choices of one's own, and the numbers of a head."""

from __future__ import annotations

import math
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from studio.browsing import asked, open_view, until, watched
from torch.nn import functional as F

import regard
from regard.data.batching import pad
from regard.types import BEGIN, END

TEXT = "où est la gare ?"
READY = ".steps[aria-busy=false] .next button"


@cache
def translator(folder: Path):
    return regard.load(folder, device="cpu")


def next_chances(model, written: list[int]) -> torch.Tensor:
    """Fed one token at a time, as a search does, and not as the page's server does it."""
    ids, mask = pad([[*model.encode(TEXT), END]])
    decoder = model.model.decoder
    with torch.inference_mode():
        state = decoder.start(model.model.encode(ids, mask), beams=1, capacity=len(written) + 1)
        for token in (BEGIN, *written):
            logits, state = decoder.step(torch.tensor([[token]]), state)
    return logits[0, -1].softmax(-1)


def shown(page) -> list[tuple[int, float]]:
    """(token, probability) of every bar."""
    rows = page.eval_on_selector_all(".next button", "all => all.map(one => [one.dataset.id, one.dataset.value])")
    return [(int(token), float(value)) for token, value in rows]


def settled(page) -> None:
    until(page, "document.querySelector('.steps')?.getAttribute('aria-busy') === 'false'")


def written(page) -> list[str]:
    return page.locator(".target .token:not(.open)").all_inner_texts()


@pytest.mark.parametrize("name", ["tiny-transformer", "tiny-bahdanau", "tiny-none"])
def test_V3_every_step_shows_what_the_model_thinks(page, studio, name):
    model = translator(studio.folders[name])
    own = asked(studio, "continue_translation", model=name, text=TEXT)
    open_view(page, studio, "steps", READY, model=name, text=TEXT)
    settled(page)
    for step in range(min(3, len(own["ids"]))):
        assert page.locator(".choice output").first.inner_text().startswith(f"{step + 1} of")
        chances = next_chances(model, own["ids"][:step])
        assert len(shown(page)) == 10
        for token, value in shown(page):
            assert value == pytest.approx(float(chances[token]), abs=1e-5)
        looked = page.eval_on_selector_all(".attention button", "all => all.map(one => Number(one.dataset.value))")
        if name == "tiny-none":
            assert looked == [] and "no attention" in page.locator(".attention").inner_text()
        else:
            assert sum(looked) == pytest.approx(1, abs=1e-4) and len(looked) == len(own["source"]["tokens"])
        if step + 1 < len(own["ids"]):
            page.get_by_role("button", name="Next →").click()
            page.wait_for_url(re.compile(f"step={step + 1}"))
            settled(page)


def test_V3_a_choice_and_what_the_model_makes_of_it(page, studio):
    name = "tiny-transformer"
    model = translator(studio.folders[name])
    own = asked(studio, "continue_translation", model=name, text=TEXT)["ids"]
    assert len(own) > 2 and own[-1] == END
    open_view(page, studio, "steps", READY, model=name, text=TEXT, step=1)
    settled(page)
    other = next(token for token, _ in shown(page) if token not in (own[1], END))
    page.click(f".next [data-id='{other}']")
    page.wait_for_url(re.compile(rf"way={own[0]}\.{other}(!|%21)&?"))
    settled(page)
    assert len(written(page)) == 2 and page.locator(".token.chosen").count() == 1
    assert page.locator(".token.open[aria-current=step]").count() == 1  # what comes next is not written yet
    for token, value in shown(page):
        assert value == pytest.approx(float(next_chances(model, [own[0], other])[token]), abs=1e-5)
    page.get_by_role("button", name="Let the model continue").click()
    until(page, "!document.querySelector('.steps .main')")
    (found,) = model.search([model.encode(TEXT)], beam=4, max_length=12, prefix=[own[0], other])[0]
    expected = found.ids + ([END] if found.finished else [])
    assert f"way={'.'.join(f'{t}!' if i == 1 else str(t) for i, t in enumerate(expected))}" in page.url.replace(
        "%21", "!"
    )
    assert len(written(page)) == len(expected) and page.locator(".token.chosen").count() == 1
    page.locator(".token.chosen").click()
    page.get_by_role("button", name="Undo this choice").click()
    until(page, "!document.querySelector('.token.chosen')")
    page.go_back()  # to the choice
    page.wait_for_selector(".token.chosen")
    page.get_by_role("button", name="Reset to the model's translation").click()
    until(page, "!document.querySelector('.token.chosen')")
    assert "way=" not in page.url and len(written(page)) == len(own)


def test_a_candidate_leads_to_why_it_was_not_written(page, studio):
    name = "tiny-transformer"
    open_view(page, studio, "steps", READY, model=name, text=TEXT, step=1)
    settled(page)
    token = written(page)[1]
    other = page.locator(".why-not a").first.inner_text()
    assert other != token
    page.locator(".why-not a").first.click()
    until(page, "location.hash.includes('view=why') && location.hash.includes('output=1')")
    until(page, "document.querySelector('.why-said')?.textContent.includes('and not')")
    words = page.locator(".why-said").inner_text()
    assert token.lstrip("·") in words and other.lstrip("·") in words


def test_V3_keys_slider_and_play(page, studio):
    open_view(page, studio, "steps", READY, model="tiny-transformer", text=TEXT)
    settled(page)
    count = len(written(page))
    page.locator(".token").first.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_url(re.compile("step=1"))
    page.keyboard.press("ArrowLeft")
    page.wait_for_url(lambda url: "step=" not in url)
    page.locator(".steps input[type=range]").fill(str(count))
    page.wait_for_url(re.compile(f"step={count - 1}"))
    page.locator(".steps input[type=range]").fill("1")
    page.wait_for_url(lambda url: "step=" not in url)
    page.get_by_role("button", name="Play").click()
    page.wait_for_url(re.compile("step=1"))
    page.get_by_role("button", name="Pause").click()
    page.fill("textarea", "oui")
    until(page, "document.querySelectorAll('.steps .word').length === 4")  # three letters and the end


def told(page, stage: str) -> dict[str, str]:
    """The tooltips of a stage's cells by their names."""
    cells = f"[data-stage='{stage}'] rect[data-at]"
    rows = page.eval_on_selector_all(cells, "all => all.map(one => one.querySelector('title').textContent)")
    return dict(row.split("\n")[0].rsplit(" = ", 1) for row in rows)


def vector(page, stage: str, symbol: str, size: int) -> list[float]:
    found = told(page, stage)
    return [float(found[f"{symbol}[{place}]"]) for place in range(size)]


def column(page, stage: str) -> tuple[list[str], list[float]]:
    """Of a stage with one number a token: the tokens, and the numbers."""
    cells = f"[data-stage='{stage}'] rect[data-at$=' 0']"
    rows = page.eval_on_selector_all(cells, "all => all.map(one => one.querySelector('title').textContent)")
    named = [row.split("\n")[0].rsplit(" = ", 1) for row in rows]
    return [name.split(" of ", 1)[1] for name, _ in named], [float(value) for _, value in named]


def test_V4_the_numbers_on_the_page_are_the_models(page, studio):
    """The first layer of the encoder, by torch's own functions from the weights in the model's folder."""
    name, head, place = "tiny-transformer", 2, 3
    model = translator(studio.folders[name])
    open_view(page, studio, "numbers", ".stage", model=name, text=TEXT, attention="source", head=head, position=place)
    attention, embedding = model.model.encoder.layers[0].attention, model.model.stem.embedding
    ids = torch.tensor([*model.encode(TEXT), END])
    with torch.inference_mode():
        x = embedding.table.weight[ids] * math.sqrt(16) + embedding.position(torch.arange(len(ids)))
        query, key, value = F.linear(x, attention.inward.weight, attention.inward.bias).chunk(3, -1)
        own = slice(head * 4, head * 4 + 4)
        scores = key[:, own] @ query[place, own]
        out, weights = F.multi_head_attention_forward(
            x[:, None], x[:, None], x[:, None], 16, 4, attention.inward.weight, attention.inward.bias, None, None,
            False, 0.0, attention.outward.weight, attention.outward.bias, average_attn_weights=False,
        )  # fmt: skip
    np.testing.assert_allclose(vector(page, "position", "x", 16), x[place], atol=1e-5)
    np.testing.assert_allclose(vector(page, "query", "q", 4), query[place, own], atol=1e-5)
    np.testing.assert_allclose(vector(page, "output", "o", 16), out[place, 0], atol=1e-5)
    mixed = weights[0, head, place] @ value[:, own]
    np.testing.assert_allclose(vector(page, "weighted sum", "head₂", 4), mixed, atol=1e-5)
    for stage, expected in {"dot products": scores, "scaling": scores / 2, "softmax": weights[0, head, place]}.items():
        tokens, values = column(page, stage)
        assert tokens == model.tokenizer.pieces(ids.tolist())
        np.testing.assert_allclose(values, expected, atol=1e-5, err_msg=stage)


def test_V4_a_recurrent_score_is_spelled_out(page, studio):
    """Bahdanau's: v tanh(W s + U h) by hand, at the first word, when the state is the bridge's."""
    model = translator(studio.folders["tiny-bahdanau"])
    open_view(page, studio, "numbers", ".stage", model="tiny-bahdanau", text=TEXT)
    ids, mask = pad([[*model.encode(TEXT), END]])
    decoder = model.model.decoder
    attention = decoder.cross_attention
    with torch.inference_mode():
        memory = model.model.encode(ids, mask)
        state, states = decoder.bridge(memory)[-1][0][0], memory.states[0]
        inner = torch.tanh(state @ attention.query.weight.T + states @ attention.key.weight.T)
        scores = inner @ attention.score.weight[0]
        context = scores.softmax(-1) @ states
    np.testing.assert_allclose(vector(page, "state", "s", 16), state, atol=1e-5)
    np.testing.assert_allclose(column(page, "scores")[1], scores, atol=1e-5)
    np.testing.assert_allclose(vector(page, "weighted sum", "c", 16), context, atol=1e-5)
    assert page.locator(".stage").last.get_attribute("data-stage") == "use"


def test_V4_another_token_another_head_and_stage_after_stage(page, studio):
    page.emulate_media(reduced_motion="reduce")  # what moves cannot be pointed at
    open_view(page, studio, "numbers", ".stage", model="tiny-transformer", text=TEXT)
    first = told(page, "query")
    page.locator(".controls").get_by_label("Head").select_option("1")
    page.wait_for_url(re.compile("head=1"))
    until(page, "document.querySelector('.stages').getAttribute('aria-busy') === 'false'")
    assert told(page, "query") != first
    page.locator(".query-tokens .token").nth(1).click()
    page.wait_for_url(re.compile("position=1"))
    until(page, "document.querySelector('.stages').getAttribute('aria-busy') === 'false'")
    assert page.locator(".stage.at").get_attribute("data-stage") == "input"
    page.get_by_role("button", name="Next ↓").click()
    page.wait_for_url(re.compile("stage=1"))
    assert page.locator(".stage.at").get_attribute("data-stage") == "query"
    page.locator("[data-stage='dot products'] rect[data-at$=' key 0 bar']").hover(force=True)
    said = page.locator("[data-stage='dot products'] .value").inner_text()
    assert re.search(r"q · k of o = \S+\n.* × .* \+ .* = ", said), said
    assert page.locator("text.same").count() >= 5  # the same token in every stage
    with page.expect_download() as saved:
        page.locator("[data-stage='keys']").get_by_role("button", name="SVG").click()
    assert "<svg" in Path(saved.value.path()).read_text()


def test_query_and_keys_stay_in_sight_and_the_progress_follows_the_scroll(page, studio):
    page.emulate_media(reduced_motion="reduce")
    open_view(page, studio, "numbers", ".stage", model="tiny-transformer", text=TEXT, position=1)
    told = asked(studio, "numbers", model="tiny-transformer", text=TEXT, position=1)
    found = page.eval_on_selector_all(".keys .key", "all => all.map(one => Number(one.dataset.weight))")
    assert found == pytest.approx(told["weights"]) and len(found) == len(TEXT) + 1
    page.evaluate("document.querySelector('[data-stage=softmax]').scrollIntoView()")
    until(page, "document.querySelector('.stage.at').dataset.stage === 'softmax'")
    assert f"{[one['name'] for one in told['stages']].index('softmax') + 1} of" in page.locator(".onwards").inner_text()
    for selector in (".query-tokens [aria-pressed=true]", ".keys .key >> nth=0"):
        box = page.locator(selector).bounding_box()
        assert 0 <= box["y"] < 200, "pinned to the top"
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    until(page, "document.querySelector('.stage.at') === [...document.querySelectorAll('.stage')].at(-1)")
    page.get_by_role("button", name="Previous").click()
    page.wait_for_timeout(200)
    assert page.locator(".onwards").inner_text().count(f"{len(told['stages']) - 1} of {len(told['stages'])}") == 1
    page.reload()
    until(page, "document.querySelector('.stage.at') && scrollY > 300")


@pytest.mark.parametrize("view", ["steps", "numbers"])
@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_R22_narrow_and_accessible(browser, studio, view, scheme):
    from axe_playwright_python.sync_playwright import Axe

    with watched(browser, studio, viewport={"width": 360, "height": 740}, color_scheme=scheme) as page:
        open_view(page, studio, view, READY if view == "steps" else ".stage", model="tiny-transformer", text=TEXT)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        if view == "steps":  # nothing is cut off
            shown = ".steps .word, .steps .token, .steps .bars .said"
            rights = page.eval_on_selector_all(shown, "all => all.map(one => one.getBoundingClientRect().right)")
            assert len(rights) > 30 and max(rights) <= 360
        found = Axe().run(page).response["violations"]
        assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []


def test_what_cannot_be_asked_is_refused_in_a_line(studio):
    from urllib.error import HTTPError

    for question, more, status in (
        ("decoding_step", {"written": [-1]}, 400),
        ("decoding_step", {"written": [10**6]}, 400),
        ("decoding_step", {"written": [5] * 513}, 400),
        ("continue_translation", {"written": [END, 5]}, 400),
        ("numbers", {"layer": -1}, 400),
    ):
        with pytest.raises(HTTPError) as refused:
            asked(studio, question, model="tiny-transformer", text=TEXT, **more)
        assert refused.value.code in (status, 422), question
    with pytest.raises(HTTPError, match="40|42"):
        asked(studio, "numbers", model="tiny-none", text=TEXT)
