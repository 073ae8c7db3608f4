"""The tab What if in a browser: parts are switched off, two sentences patched, and what it shows is the model's own."""

from __future__ import annotations

import pytest
from studio.browsing import open_view, settled, until, watched

import regard
from regard.inspection.record.parts import parts_of
from regard.inspection.trace.base import Choice

TEXT, OTHER = "elle a lu ce livre .", "oui , bien sûr !"
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("tiny-universal", "tiny-none")]
NAMES = ["tiny-transformer", "tiny-bahdanau", *SLOW]


def texts(page) -> list[str]:
    return [" ".join(one.split()) for one in page.locator(".outcome .said-text").all_text_contents()]


def expected(translation: str) -> str:
    return " ".join(translation.split()) or "(nothing)"


@pytest.mark.parametrize("name", NAMES)
def test_a_part_is_switched_off_and_on_again(page, studio, name):
    translator = regard.load(studio.folders[name], device="cpu")
    trace = translator.inspect(TEXT)
    open_view(page, studio, "what_if", ".part", model=name, text=TEXT)
    settled(page)
    assert texts(page) == [expected(trace.target.text)]
    last = parts_of(translator.model)[-1]
    part = f"{last.side}.{last.layer}" if last.gates == [] else f"{last.side}.{last.layer}.gate.{last.gates[0]}"
    page.locator(f"[data-part='{part}']").click()
    until(page, "document.querySelectorAll('.outcome .said-text').length === 2")
    settled(page)
    found = trace.what_if_of(Choice(without=[part]))
    assert texts(page) == [expected(trace.target.text), expected(found.after.target.text)]
    assert page.locator(f"[data-part='{part}']").get_attribute("aria-pressed") == "true"
    assert f"off={part}" in page.url
    facts = page.locator(".outcome .faint").all_inner_texts()
    assert f"{found.log_probability:.2f}".replace("-", "−") in facts[-1]
    assert page.locator(".regard-what-if").count() == 1
    assert page.locator(".regard-matrix").count() == (2 if trace.attention else 0)
    page.locator(f"[data-part='{part}']").press("Enter")
    until(page, "document.querySelectorAll('.outcome .said-text').length === 1")


def test_a_link_reproduces_the_view_and_the_mean_is_told(page, studio):
    open_view(page, studio, "what_if", ".regard-what-if", model="tiny-transformer", text=TEXT,
              off="encoder.0.self.head.1,encoder.embedding@2", mean="yes")  # fmt: skip
    settled(page)
    pressed = page.eval_on_selector_all("[aria-pressed=true]", "all => all.map(one => one.dataset.part)")
    assert pressed == ["encoder.0.self.head.1", "encoder.embedding@2"]
    assert page.locator(".outcome h2").all_inner_texts()[1] == (
        "encoder.0.self.head.1, encoder.embedding@2 replaced by the mean"
    )
    page.click("button:text-is('Switch everything on')")
    until(page, "!location.hash.includes('off=') && document.querySelectorAll('.outcome .said-text').length === 1")


def test_patching_between_two_sentences(page, studio):
    trace = regard.load(studio.folders["tiny-transformer"], device="cpu").inspect(TEXT)
    open_view(page, studio, "what_if", ".part", model="tiny-transformer", text=TEXT)
    page.click(".patching summary")
    page.get_by_label("Other sentence").fill(OTHER)
    page.wait_for_selector(".patching select")
    page.get_by_label("Put in").select_option("encoder.1.output")
    until(page, "document.querySelectorAll('.outcome .said-text').length === 2")
    page.get_by_label("at token").select_option("3")
    until(page, "location.hash.includes('patch=encoder.1.output%403%3D3')")
    page.get_by_label("from token").select_option("5")
    until(page, "location.hash.includes('%403%3D5')")
    settled(page)
    found = trace.what_if_of(Choice(patch=["encoder.1.output@3=5"], other=OTHER))
    assert texts(page)[1] == expected(found.after.target.text)
    assert found.other_translation.strip() in page.locator(".patching").inner_text()


@pytest.mark.parametrize("name", ["tiny-transformer", "tiny-bahdanau"])
def test_the_experiment_is_answered_by_the_model(page, studio, name):
    translator = regard.load(studio.folders[name], device="cpu")
    trace = translator.inspect(TEXT)
    open_view(page, studio, "what_if", ".part", model=name, text=TEXT)
    page.click(".experiment .act")
    until(page, "document.querySelector('.experiment .answer').textContent.length > 10")
    if name == "tiny-transformer":
        parts = [f"decoder.1.cross.head.{head}" for head in range(4)]
    else:
        last = parts_of(translator.model)[-1]
        parts = [f"decoder.{last.layer}.gate.{gate}" for gate in last.gates]
    worst = min(parts, key=lambda part: trace.what_if_of(Choice(without=[part])).log_probability)
    assert page.locator(".experiment .answer").inner_text().startswith(f"{worst}: ") and f"off={worst}" in page.url


def test_the_logit_lens_ends_with_what_was_written(page, studio):
    trace = regard.load(studio.folders["tiny-transformer"], device="cpu").inspect(TEXT)
    open_view(page, studio, "what_if", ".regard-lens", model="tiny-transformer", text=TEXT)
    count = len(trace.lens().layers)
    for position, token in enumerate(trace.target.tokens):
        words = page.locator(f"[data-at='lens {count - 1} {position}'] title").text_content()
        assert f"{token} has {trace.lens().layers[-1].probabilities[position]:.3g}" in words


def test_parts_of_another_model_are_dropped_and_mistakes_have_a_way_out(page, studio):
    open_view(page, studio, "what_if", ".trouble", model="tiny-none", text=TEXT, off="encoder.7")
    assert "layers 0 to 0" in page.locator(".trouble").inner_text()
    page.click("button:text-is('Switch everything on')")
    page.wait_for_selector(".part")
    page.select_option("#models select", "tiny-transformer")
    until(page, "document.querySelector('[data-part=\"decoder.1.cross.head.3\"]') !== null")
    page.locator("[data-part='decoder.1']").click()
    until(page, "location.hash.includes('off=')")
    page.select_option("#models select", "tiny-none")
    until(page, "!location.hash.includes('off=')")


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_axe_and_a_phone(browser, studio, colours):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    size = {"width": 360, "height": 740}
    with watched(browser, studio, viewport=size, color_scheme=colours) as page:
        open_view(page, studio, "what_if", ".regard-what-if", model="tiny-transformer", text=TEXT,
                  off="decoder.1", patch="encoder.0.output@1=2", other=OTHER)  # fmt: skip
        settled(page)
        serious = [one for one in axe.run(page).response["violations"] if one["impact"] in ("serious", "critical")]
        assert not serious, serious
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
