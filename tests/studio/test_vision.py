"""The studio's pictures, in a real browser: what lies over them is what the model did (R20), wherever they come from."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError

import numpy as np
import pytest
from studio.browsing import Studio, asked, open_view, running_studio, until, watched
from task.seers import PATCH, by_hand, captioner, classifier, picture, png, saved

VIT, WRITER = "tiny-vit", "tiny-captioner"


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    home = tmp_path_factory.mktemp("seers")
    folders = {VIT: saved(classifier(), home / VIT), WRITER: saved(captioner("transformer"), home / WRITER)}
    options = [part for folder in folders.values() for part in ("--model", str(folder))]
    with running_studio("--only", "--runs", str(home / "runs"), *options) as running:
        running.folders = folders
        yield running


@pytest.fixture
def page(browser, seeing):
    with watched(browser, seeing, viewport={"width": 1200, "height": 900}) as opened:
        yield opened


def drawn(page) -> tuple[str, np.ndarray]:
    """Who looks on the page, and the weights that lie over the picture, place by place."""
    found = page.eval_on_selector_all(".scene .place", "all => all.map(one => [one.dataset.weight, one.ariaLabel])")
    for weight, said in found:
        assert said.endswith(f": {weight}")
    return page.get_attribute(".scene", "data-who"), np.array([weight for weight, _ in found], np.float32)


def veils(page) -> np.ndarray:
    style = "all => all.map(one => Number(getComputedStyle(one).opacity))"
    return np.array(page.eval_on_selector_all(".scene .place .veil", style))


def choose(page, what: str, value: str) -> None:
    page.locator(f"label.choice:has-text('{what}') >> nth=0").locator("select").select_option(value)


def wait_for(page, who: str) -> None:
    page.wait_for_selector(f'.scene[data-who="{who}"]')


def sample(name: str) -> np.ndarray:
    from PIL import Image

    from regard.data.samples import samples

    pixels = np.array(Image.open(io.BytesIO(samples()[name])))
    return pixels if pixels.ndim == 3 else pixels[..., None]


def test_R20_patches_on_the_page_are_weighed_as_the_model_weighs_them(page, seeing):
    task = classifier()
    layers, probabilities = by_hand(task, task.pair.input.shaped(sample("boot")))
    open_view(page, seeing, "vision", model=VIT, sample="boot")
    who, weights = drawn(page)
    assert who == "class"
    np.testing.assert_allclose(weights, layers[2].mean(0)[0, 1:], atol=1e-5)
    np.testing.assert_allclose(veils(page), 0.88 * (1 - weights / weights.max()), atol=0.01)
    told = dict(
        page.eval_on_selector_all(
            ".chances div",
            "all => all.map(one => [one.children[0].textContent, Number(one.children[1].dataset.value)])",
        )
    )
    assert [told[name] for name in task.labels.names] == pytest.approx(probabilities.tolist(), abs=1e-5)
    assert page.text_content(".label") == task.labels.names[probabilities.argmax()]

    # Another head of another layer; then a place that is pointed at, and one that is pressed and stays.
    choose(page, "Layer", "0")
    choose(page, "Head", "1")
    page.hover(".samples")
    until(page, f"Math.abs(document.querySelector('.place').dataset.weight - {layers[0][1][0, 1]}) < 1e-5")
    np.testing.assert_allclose(drawn(page)[1], layers[0][1][0, 1:], atol=1e-5)
    page.hover(".place >> nth=5")
    wait_for(page, "r1 c2")
    np.testing.assert_allclose(drawn(page)[1], layers[0][1][6, 1:], atol=1e-5)
    assert float(page.get_attribute(".class-token", "data-weight")) == pytest.approx(layers[0][1][6, 0], abs=1e-5)
    page.click(".place >> nth=3")
    page.hover(".place >> nth=7")
    wait_for(page, "r1 c0")
    said = page.text_content(".sight .value")
    assert said.startswith("r1 c0 → r2 c1: ") and float(said.split(": ")[1]) == pytest.approx(
        layers[0][1][4, 8], abs=1e-5
    )
    assert "patch=4" in page.url
    choose(page, "Head", "rollout")
    np.testing.assert_allclose(drawn(page)[1], task.inspect(sample("boot")).rollout()[0, 4, 1:], atol=1e-5)
    # The drawing below is of the place that looks.
    page.wait_for_selector("#view figure title:text-matches('rollout: r1 c0')", state="attached")
    page.go_back()
    np.testing.assert_allclose(drawn(page)[1], layers[0][1][4, 1:], atol=1e-5)


def test_hiding_what_is_attended_to_is_what_the_model_does_with_the_hidden_image(page, seeing):
    """The same image with the same places in grey, made here."""
    task = classifier()
    open_view(page, seeing, "vision", model=VIT, sample="boot")
    page.wait_for_selector(".chances")
    page.click(".experiment .act")
    until(page, "document.querySelector('.experiment .answer').innerText.includes('attended ones in grey')")
    said = page.locator(".experiment .answer").inner_text()
    trace = task.inspect(sample("boot"))
    scene, weights = trace.scene, trace.rollout()[-1, 0, 1:]
    count = max(1, round(0.2 * len(weights)))
    label = max(trace.probabilities, key=lambda name: trace.probabilities[name])
    wanted = []
    order = np.argsort(-weights, kind="stable")
    for places in (order[:count], [], order[-count:]):
        pixels = scene.pixels.copy()
        high, wide = pixels.shape[0] // scene.rows, pixels.shape[1] // scene.columns
        for place in places:
            row, column = divmod(int(place), scene.columns)
            pixels[row * high : (row + 1) * high, column * wide : (column + 1) * wide] = 0x80
        wanted.append(task.inspect(png(pixels)).probabilities[label])
    found = [float(one) for one in re.findall(r"0\.\d{3}", said)]
    assert found == pytest.approx(wanted, abs=2e-3)


def test_R20_each_word_of_a_caption_shows_where_the_model_looked(page, seeing):
    task = captioner("transformer")
    pixels = sample("shapes-2")
    written = task.caption(pixels)
    looks = task.attention(pixels, written.ids).numpy()
    open_view(page, seeing, "vision", model=WRITER, sample="shapes-2")
    words = page.eval_on_selector_all(".caption .word", "all => all.map(one => one.textContent)")
    assert words == written.text.split() and len(words) == len(looks)
    assert veils(page).max() == 0, "nothing is hidden before a word is pointed at"
    for number in (0, len(words) - 1):
        page.hover(f".word >> nth={number}")
        wait_for(page, words[number])
        np.testing.assert_allclose(drawn(page)[1], looks[number], atol=1e-5)
    page.hover(".place >> nth=3")
    least = page.eval_on_selector_all(".word", "all => all.map(one => Number(one.style.getPropertyValue('--weight')))")
    np.testing.assert_allclose(least, looks[:, 3] / looks[:, 3].max(), atol=1e-4)
    choose(page, "Layer", "1")
    choose(page, "Head", "0")
    until(page, "location.hash.includes('head=0')")
    page.click(".word >> nth=0")
    seen = task.inspect(pixels)
    until(page, f"Math.abs(document.querySelector('.place').dataset.weight - {seen.word_matrix(1, 0)[0, 0]}) < 1e-5")
    choose(page, "Show", "beam")
    page.wait_for_selector("#view .regard-tree, #view figure h2:text('the search')")


def test_V4_numbers_of_the_place_that_was_pressed(page, seeing):
    task = classifier()
    layers, _ = by_hand(task, task.pair.input.shaped(sample("boot")))
    open_view(page, seeing, "vision", model=VIT, sample="boot", layer=1, head=1, patch=4, seeing="numbers")
    page.wait_for_selector("figure h2:text-is('r1 c0: self-attention of the source, layer 1, head 1')")
    drawing = page.locator("figure .drawing").text_content()
    for weight in layers[1][1][4]:
        assert re.search(rf"= {re.escape(f'{weight:.4f}'[:-1])}", drawing), weight
    choose(page, "Show", "positions")
    page.wait_for_selector("figure h2:has-text('positions')")


def test_a_file_of_ones_own_is_looked_at_and_what_is_none_is_refused(page, seeing, tmp_path):
    task = classifier()
    own = picture(40, 40, 3, seed=9)
    file = tmp_path / "own.png"
    file.write_bytes(png(own))
    open_view(page, seeing, "vision", model=VIT)
    page.set_input_files("input[type=file]", file)
    until(page, "location.hash.includes('sample=own')")
    page.wait_for_selector(f'.label:text-is("{task.classify([own])[0].label}")')
    page.wait_for_selector('.sight[data-name="the picture"]')
    np.testing.assert_allclose(drawn(page)[1], task.inspect(own).attention[2].weights.mean(0)[0, 1:], atol=1e-5)
    file.write_bytes(b"no picture at all")
    page.set_input_files("input[type=file]", file)
    page.wait_for_selector(".trouble:has-text('is no picture that can be read')")
    page.click("[data-sample=bag]")
    page.wait_for_selector('.sight[data-name="bag"] .scene')


def test_what_is_drawn_is_looked_at(page, seeing):
    """A stroke through the middle of the lower left place: there it is bright, and nowhere else."""
    from PIL import Image

    open_view(page, seeing, "vision", model=VIT)
    page.click("text=Draw an image")
    box = page.locator(".pad canvas").bounding_box()
    x, y = box["x"] + box["width"] / 6, box["y"] + box["height"] * 5 / 6
    page.mouse.move(x, y - 10)
    page.mouse.down()
    page.mouse.move(x, y + 10, steps=4)
    page.mouse.up()
    page.wait_for_selector('.sight[data-name="the picture"] .scene')
    address = page.get_attribute(".scene img", "src")
    pixels = np.array(Image.open(io.BytesIO(base64.b64decode(address.split(",")[1]))))
    bright = [
        [pixels[r : r + PATCH, c : c + PATCH].max() > 100 for c in range(0, 12, PATCH)] for r in range(0, 12, PATCH)
    ]
    assert bright == [[False] * 3, [False] * 3, [True, False, False]]


def test_R22_it_can_be_used_with_keys_alone_and_on_a_telephone(browser, seeing):
    with watched(browser, seeing, viewport={"width": 360, "height": 700}) as page:
        open_view(page, seeing, "vision", model=VIT, sample="bag")
        page.focus(".place")
        for key, who in (("ArrowRight", "r0 c1"), ("ArrowDown", "r1 c1"), ("ArrowUp", "r0 c1"), ("ArrowUp", "r0 c1")):
            page.keyboard.press(key)
            wait_for(page, who)
        page.keyboard.press("Enter")
        until(page, "location.hash.includes('patch=2')")
        assert page.evaluate("document.activeElement.dataset.place") == "1"
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
        for model in (VIT, WRITER):
            open_view(page, seeing, "vision", model=model)
            found = [one for one in axe.run(page).response["violations"] if one["impact"] in ("serious", "critical")]
            assert not found, json.dumps(found, indent=1)[:2000]


def test_pictures_are_taken_away_with_what_is_in_them(page, seeing, tmp_path):
    open_view(page, seeing, "vision", model=VIT, sample="boot")
    for kind in ("SVG", "PNG", "HTML"):
        with page.expect_download() as begun:
            page.click(f"#view figcaption button:text-is('{kind}')")
        file = Path(tmp_path / begun.value.suggested_filename)
        begun.value.save_as(file)
        if kind == "PNG":
            from PIL import Image

            colours = np.array(Image.open(file).convert("RGB"))
            assert (colours.reshape(-1, 3).max(1) < 20).mean() > 0.02, "the black of the photograph is missing"
        else:
            assert "data:image/png;base64," in file.read_text()


def test_R20_a_page_by_itself_shows_another_head_and_another_place_that_looks(page):
    seen = classifier().inspect(picture())
    page.set_content(seen.html())
    page.click('[data-at="of source 2 1"] >> nth=0')
    page.click('figure[data-kind] [data-at="place 4"]')
    found = page.eval_on_selector_all(
        '[data-at^="place"]', "all => all.map(one => [one.textContent, Number(one.getAttribute('fill-opacity'))])"
    )
    weights = seen.attention[2].weights[1, 4]
    assert [np.float32(told.split(": ")[1]) for told, _ in found] == weights.tolist()
    clear = (weights / weights[1:].max()).clip(0, 1)
    np.testing.assert_allclose([thick for _, thick in found], 0.88 * (1 - clear), atol=1e-3)
    assert page.text_content("[data-at=who]") == "query: r1 c0"
    # The frame is around the query.
    boxes = page.evaluate(
        "['looker 0', 'place 4'].map(at => { const b = document.querySelector(`[data-at='${at}']`).getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; })"
    )
    np.testing.assert_allclose(boxes[0], boxes[1], atol=1)


@pytest.mark.parametrize(
    "request_, said",
    [
        ({"picture": "A" * 1_000_000}, "picture: "),
        ({"picture": "no base64!"}, "base64"),
        ({"picture": base64.b64encode(b"text").decode()}, "is no picture"),
        ({"sample": "../../etc/passwd"}, "there is no sample"),
        ({"sample": "boot", "layer": 9}, "layers 0 to 2"),
        ({"sample": "boot", "view": "beam"}, "no view 'beam'"),
        ({"sample": "boot", "anything": 1}, "anything"),
    ],
)
def test_what_cannot_be_looked_at_is_refused_in_a_line(seeing, request_, said):
    with pytest.raises(HTTPError) as refused:
        asked(seeing, "inspect_image", model=VIT, **request_)
    answer = json.load(refused.value)
    assert 400 <= refused.value.code < 500
    assert said in answer["error"] and "\n" not in answer["error"]
