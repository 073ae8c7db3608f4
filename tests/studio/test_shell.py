"""The studio's frame: it opens at once, offers what fits, shows what Python draws, and lets nobody else in."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from serving.running import ROOT, environment
from studio.browsing import open_view, running_studio, settled, stop, told, until, write_tiny

import regard
from regard.inspection.draw.style import DARK, LIGHT
from regard.layers.capture import capture
from regard.studio import models as exhibits
from regard.studio.app import PAGE, code_page, page_files, sources

TEXT = "elle a lu ce livre ."


def test_tabs_and_models_are_those_that_fit(page, studio):
    open_view(page, studio, "heads")
    assert {"Heads", "Beam", "Positions", "Gates", "Ponder"} <= set(page.locator("nav a").all_inner_texts())
    assert page.locator("nav a[aria-current]").inner_text() == "Heads"
    assert page.title() == "Heads · Regard studio"
    offered = page.locator("#models option").all_inner_texts()
    assert [one.partition(":")[0] for one in offered] == ["tiny-transformer", "tiny-universal", "tiny-bahdanau"]
    page.click("nav a:text-is('Gates')")  # a Transformer has none: the first model that has some is shown
    until(page, "document.querySelector('#models select').value === 'tiny-bahdanau'")


def test_V2_numbers_on_the_page_are_those_of_a_forward_pass_of_our_own(page, studio):
    """Read out of the drawn lines; beside them the text that the page says goes through the model once more."""
    model = regard.load(studio.folders["tiny-transformer"], device="cpu")
    open_view(page, studio, "heads", model="tiny-transformer", text=TEXT, attention="cross", layer=1, head=2)
    until(page, "document.querySelector('.regard-lines') !== null")
    source = page.eval_on_selector_all("[data-at^='key '] title", "titles => titles.map(one => one.textContent)")
    target = page.eval_on_selector_all("[data-at^='query '] title", "titles => titles.map(one => one.textContent)")
    drawn = page.eval_on_selector_all(
        ".regard-lines line title", "titles => titles.map(one => [one.parentElement.dataset.at, one.textContent])"
    )
    pieces = model.tokenizer.pieces(list(range(len(model.tokenizer))))
    import torch

    ids, written = ([pieces.index(token) for token in side] for side in (source, target))
    begin = pieces.index("<s>")
    with torch.no_grad(), capture(model.model) as seen:
        read = torch.tensor([[begin, *written[:-1]]])
        model.model(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.bool), read)
    weights = seen["decoder.layers.1.cross_attention.weights"][0][0, 2].numpy()
    assert len(drawn) == int((weights >= 0.004).sum()) > 5
    for at, words in drawn:
        query, key = map(int, at.split())
        assert words.startswith(f"{source[key]} → {target[query]}: ")
        assert float(words.rpartition(": ")[2]) == pytest.approx(weights[query, key], abs=1e-5)


def test_V2_a_click_on_a_small_matrix_opens_its_head_and_a_token_shows_its_own_lines(page, studio):
    open_view(page, studio, "heads", model="tiny-transformer", text=TEXT)
    page.wait_for_selector(".regard-grid")
    page.locator("[data-at='pick source 1 3']").click()
    until(page, "document.querySelector('figure h2').textContent === 'self-attention of the source, layer 1, head 3'")
    page.locator("[data-at='query 2']").hover()
    looked = page.eval_on_selector_all(".looking line.looked", "lines => lines.map(one => one.dataset.at)")
    assert looked and all(at.startswith("2 ") for at in looked)
    assert page.locator("figure .value").first.inner_text() == page.locator("[data-at='query 2'] title").text_content()


def test_V6_the_beam_is_as_wide_as_the_slider_says(page, studio):
    open_view(page, studio, "beam", model="tiny-none", text=TEXT)
    page.locator("input[type=range]").fill("2")
    until(page, "location.hash.includes('beam=2')")
    settled(page)
    look = regard.load(studio.folders["tiny-none"], device="cpu").inspect(TEXT, beam=2)
    ways = {(step + 1, row): branch for step, one in enumerate(look.search) for row, branch in enumerate(one.open)}
    drawn = dict(
        page.eval_on_selector_all(
            "[data-at] title", "all => all.map(one => [one.parentElement.dataset.at, one.textContent])"
        )
    )
    for (step, row), branch in ways.items():
        value = float(drawn[f"{step} {row}"].rpartition("log-probability ")[2])
        assert value == pytest.approx(branch.log_probability, abs=1e-4)


def test_V5_and_V9_positions_and_gates_have_the_models_values(page, studio):
    open_view(page, studio, "positions", model="tiny-transformer")
    own = regard.load(studio.folders["tiny-transformer"], device="cpu").inspect(TEXT).positions[0].values
    said = page.locator("svg .ink title, svg .rust title").all_text_contents()
    for words in said[:50]:
        row, column, value = re.fullmatch(r"position (\d+), dimension (\d+): (\S+)", words).groups()
        assert np.float32(value) == pytest.approx(own[int(row), int(column)], abs=1e-6)
    open_view(page, studio, "gates", model="tiny-none", text=TEXT)
    page.locator("#view select").select_option(index=1)
    until(page, "document.querySelector('figure h2').textContent.includes('of the target')")
    look = regard.load(studio.folders["tiny-none"], device="cpu").inspect(TEXT)
    (writing,) = [one for one in look.gates if one.side == "target"]
    said = [words for words in page.locator("svg title").all_text_contents() if words.startswith("forget, unit 0,")]
    found = [float(words.rpartition(": ")[2]) for words in said]
    np.testing.assert_allclose(found, writing.values["forget"][:, 0], atol=1e-5)


def test_nothing_covers_the_end_of_an_exported_page(browser, studio):
    model = regard.load(studio.folders["tiny-transformer"], device="cpu")
    page = browser.new_page(viewport={"width": 800, "height": 500})
    page.set_content(model.inspect(TEXT).html("heads"))
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    assert page.locator("#said").is_hidden()
    above = page.evaluate("document.elementFromPoint(20, innerHeight - 2).id")
    assert above != "said"
    page.locator(".regard-grid [data-at^=pick] >> nth=-1").hover()
    assert "head 3" in page.locator("#said").inner_text()
    page.locator("#values").hover()
    assert page.locator("#said").is_hidden()
    page.close()


def test_the_small_matrix_of_the_chosen_head_is_marked(page, studio):
    open_view(page, studio, "heads", model="tiny-transformer", text=TEXT, attention="source", layer=1, head=2)
    page.wait_for_selector(".regard-grid .picked")
    assert page.locator(".regard-grid .picked").get_attribute("data-at") == "pick source 1 2"
    page.locator("[data-at='pick cross 0 1']").click()
    until(page, "document.querySelector('.regard-grid .picked').dataset.at === 'pick cross 0 1'")
    assert page.locator(".regard-lines .faint text").all_text_contents()[:2] == ["attended to", "attending token"]


def test_a_unit_is_followed_along_the_sentence(page, studio):
    open_view(page, studio, "gates", ".regard-unit", model="tiny-bahdanau", text=TEXT, picture=1)
    look = regard.load(studio.folders["tiny-bahdanau"], device="cpu").inspect(TEXT)
    gates = look.gates[1].values

    def bars() -> list[float]:
        said = page.eval_on_selector_all(
            ".regard-unit rect[data-at]", "all => all.map(one => [one.dataset.at, one.textContent])"
        )
        values = {at: float(words.rpartition(": ")[2]) for at, words in said}
        return [values[f"{name} {i}"] for name, gate in gates.items() for i in range(len(gate))]

    unit = int(page.input_value("input[type=number]"))
    for wanted in (unit, 7):
        if wanted != unit:
            page.locator(f".regard-gates [data-at='unit {wanted}'] >> nth=0").click(force=True)
            page.wait_for_url(re.compile(f"unit={wanted}"))
            until(page, f"document.querySelector('.second h2').textContent.startsWith('unit {wanted} ')")
        assert bars() == pytest.approx([value for gate in gates.values() for value in gate[:, wanted]], abs=1e-5)
    assert unit == 0  # at first the one on top


def test_positions_are_compared_to_a_chosen_one(page, studio):
    open_view(page, studio, "positions", ".regard-similarity", model="tiny-transformer")
    own = regard.load(studio.folders["tiny-transformer"], device="cpu").inspect(TEXT).positions[0].values[:48]
    page.locator("[data-at='position 5'] >> nth=3").click()
    until(page, "document.querySelector('.second h2').textContent === 'similarity to position 5'")
    said = page.locator(".regard-similarity rect title").all_text_contents()
    unit = own / np.linalg.norm(own, axis=1, keepdims=True)
    np.testing.assert_allclose([float(one.rpartition(": ")[2]) for one in said], unit @ unit[5], atol=1e-5)
    page.locator("#view input[type=range]").fill("9")
    until(page, "document.querySelector('.second h2').textContent === 'similarity to position 9'")


def test_the_colours_follow_the_switch_and_are_those_of_the_pictures(page, studio):
    style = (PAGE / "studio.css").read_text(encoding="utf-8")
    for name in LIGHT:
        assert style.count(f"--{name}: {LIGHT[name]}") == 1 and style.count(f"--{name}: {DARK[name]}") == 2
    open_view(page, studio, "beam")

    def colour() -> str:
        return page.locator("#view svg .ink").first.evaluate("group => getComputedStyle(group).fill")

    def hexadecimal(said: str) -> str:
        return "#" + "".join(f"{int(part):02x}" for part in re.findall(r"\d+", said)[:3])

    assert hexadecimal(colour()) == LIGHT["ink"]
    page.click("#theme")
    page.click("#theme")
    assert page.locator("#theme").inner_text() == "● Dark" and hexadecimal(colour()) == DARK["ink"]
    page.reload()
    page.wait_for_selector("#view svg")
    assert hexadecimal(colour()) == DARK["ink"]  # remembered


def test_the_code_of_every_view_can_be_read(page, studio):
    named = [
        found
        for name, path in page_files().items()
        if name.startswith("views/")
        for found in re.findall(r"\"(regard/[\w/]+\.py)(?::([\w.]+))?\"", path.read_text(encoding="utf-8"))
    ]
    assert len(named) >= 8
    for file, name in named:
        shown = code_page(file, sources()[file].read_text(encoding="utf-8"))
        assert not name or f'id="{name}"' in shown, f"{file} has no {name}"
    open_view(page, studio, "heads")
    page.locator("#about summary").click()
    page.locator("#about a").first.click()
    page.wait_for_selector(".line:has(:target)")
    assert page.locator(".line:has(:target) code").inner_text().startswith("class MultiHead")


def test_it_answers_while_models_are_loaded_and_says_which_cannot_be(browser, tmp_path, monkeypatch):
    """A shipped model that is broken is said on the page; one that was named ends the studio with its reason."""
    broken = write_tiny(tmp_path / "broken", "tiny-none")
    weights = broken / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-8])
    good = write_tiny(tmp_path / "good", "tiny-none")
    monkeypatch.setattr(exhibits, "shipped_models", lambda: {"broken": broken})
    for module in ("serving.catalogue", "find_model"):
        monkeypatch.setattr(f"regard.{module}.shipped_models", lambda: {"broken": broken})
    found = exhibits.collect([str(good)])
    assert [model.optional for model in found.catalogue.models.values()] == [False, True]
    with running_studio("--only", "--model", str(good), ready=False) as studio:
        first = told(studio)
        assert first["ready"] is False and [model["name"] for model in first["models"]] == ["good"]
        page = browser.new_page()
        # So small a model may be loaded before the page is open: the page is told that it is not.
        page.route("**/studio/models", lambda route: route.fulfill(json=first))
        page.goto(f"{studio}/studio/#view=beam")
        page.wait_for_selector("#view .waiting")
        page.unroute("**/studio/models")
        page.wait_for_selector("#view textarea")
        page.wait_for_selector("#view figure")
        stop(studio.process)  # the page is still open
        page.fill("textarea", "oui !")
        assert "does not answer" in page.wait_for_selector("#view .trouble").inner_text()
        assert page.input_value("textarea") == "oui !"
        page.close()
    end = subprocess.run(
        [sys.executable, "-m", "regard", "studio", "--only", "--port", "0", "--no-open", "--model", str(broken)],
        env=environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert end.returncode == 2 and "weights.safetensors" in end.stderr.splitlines()[-1]
    assert "Traceback" not in end.stderr


def test_every_file_of_the_page_is_small():
    """One view, one file: what is longer wants to be two."""
    sizes = {name: len(Path(path).read_text(encoding="utf-8").splitlines()) for name, path in page_files().items()}
    assert max(sizes.values()) < 420, sorted(sizes.items(), key=lambda one: -one[1])[:3]
