"""The start page: the model as a picture, from the whole to one layer, one head and one number, by pointer and keyboard."""

from __future__ import annotations

import pytest
from studio.browsing import asked, open_view, settled, told, until, watched

TEXT = "elle a lu ce livre ."
DRAWN = "document.querySelector('.map')?.getAttribute('aria-busy') === 'false'"


def start(page, studio, model: str, **state: str) -> None:
    open_view(page, studio, "start", ".map .blocks", model=model, text=TEXT, **state)
    until(page, DRAWN)


def blocks(tree: dict) -> list[dict]:
    return [one for side in ("source", "target") for one in tree[side]]


def state(page) -> dict[str, str]:
    return page.evaluate("Object.fromEntries(new URLSearchParams(location.hash.slice(1)))")


def test_the_studio_opens_with_the_model_as_a_picture(page, studio):
    page.goto(f"{studio}/studio/")
    page.wait_for_selector(".map .out b")
    assert page.locator("nav a").first.inner_text() == "Start" and page.locator("nav a[aria-current]").count() == 1
    assert page.locator("#title").inner_text() == "Start"
    assert page.evaluate("document.querySelector('#models select').value") == "tiny-transformer"
    assert page.locator("#about > p").inner_text().count(".") == 1
    assert page.locator(".says b").inner_text()


@pytest.mark.parametrize(
    "model",
    [
        "tiny-universal",
        "tiny-bahdanau",
        *(pytest.param(f"tiny-{one}", marks=pytest.mark.slow) for one in ("transformer", "none")),
    ],
)
def test_it_shows_the_blocks_of_the_recipe_and_what_the_model_computed(page, studio, model):
    start(page, studio, model)
    tree = told(studio, f"map/{model}")
    names = page.eval_on_selector_all(
        ".columns > section > .blocks > li", "all => all.map(one => one.querySelector('b').textContent)"
    )
    assert names == [one["title"] for one in blocks(tree)]
    flow = asked(studio, "flow", model=model, text=TEXT)
    chips = page.eval_on_selector_all(".columns .chips:not(.out)", "all => all.map(one => one.children.length)")
    assert chips == [flow["counts"]["source"], flow["counts"]["target"]]
    outputs = page.eval_on_selector_all(".out b", "all => all.map(one => one.textContent)")
    assert outputs == [one["token"] for one in flow["outputs"]]
    assert f"{flow['counts']['source']} × 16" in page.locator(".flow").all_inner_texts()[1]


def test_from_the_model_to_a_layer_a_head_and_a_number(page, studio):
    start(page, studio, "tiny-transformer")
    page.click(".map button[data-path='decoder.layers.1']")
    until(page, "document.querySelectorAll('[data-path=\"decoder.layers.1.cross_attention\"]').length === 1")
    assert state(page)["block"] == "decoder.layers.1"
    cross = page.locator("li:has(> [data-path='decoder.layers.1.cross_attention'])")
    assert cross.locator(".heads button").count() == 4
    cross.locator(".heads button").nth(2).click()
    flow = asked(studio, "flow", model="tiny-transformer", text=TEXT)
    (layer,) = (one for one in flow["attention"] if one["path"] == "decoder.layers.1.cross_attention")
    cells = page.eval_on_selector_all(
        ".one-head tr",
        "rows => rows.slice(1).map(row => [...row.querySelectorAll('td')].map(one => one.title.split(': ').at(-1)))",
    )
    assert [[float(value) for value in row] for row in cells] == layer["weights"][2]
    page.locator(".one-head tr").last.locator("td").first.click()
    until(page, "document.querySelector('#title').textContent === 'Numbers'")
    settled(page)
    now = state(page)
    assert (now["attention"], now["layer"], now["head"], now["position"]) == ("cross", "1", "2", str(len(cells) - 1))
    assert now["text"] == TEXT and now["model"] == "tiny-transformer"
    page.go_back()
    page.wait_for_selector(".one-head table")


def test_the_keyboard_reaches_the_same(page, studio):
    start(page, studio, "tiny-transformer")
    page.focus(".map button[data-path='encoder.layers.1']")
    page.keyboard.press("Enter")
    until(page, "document.activeElement.dataset.path === 'encoder.layers.1'")
    assert page.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent").startswith("Self-attention")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Head 0"
    page.keyboard.press("Enter")
    page.wait_for_selector(".one-head table")
    until(page, "document.activeElement.getAttribute('aria-label') === 'Head 0'")
    page.locator(".one-head th[scope=row] a").first.focus()
    page.keyboard.press("Enter")
    until(page, "document.querySelector('#title').textContent === 'Numbers'")


@pytest.mark.parametrize(
    ("model", "path", "title", "expected"),
    [
        ("tiny-transformer", "encoder.layers.0.attention", "Heads", {"attention": "source", "layer": "0"}),
        pytest.param("tiny-transformer", "decoder.embedding.position", "Positions", {}, marks=pytest.mark.slow),
        pytest.param("tiny-transformer", "softmax", "Steps", {}, marks=pytest.mark.slow),
        ("tiny-transformer", "encoder.layers.0.feed_forward", "What if", {"off": "encoder.0.feed_forward"}),
        pytest.param("tiny-transformer", "search", "Beam", {}, marks=pytest.mark.slow),
        pytest.param("tiny-universal", "encoder.halting", "Ponder", {}, marks=pytest.mark.slow),
        pytest.param("tiny-universal", "encoder.layer.feed_forward", "What if", {}, marks=pytest.mark.slow),
        ("tiny-bahdanau", "decoder.recurrence.cells.0", "Gates", {}),
    ],
)
def test_a_block_opens_the_view_that_belongs_to_it(page, studio, model, path, title, expected):
    start(page, studio, model, **({"block": "encoder.layer"} if model == "tiny-universal" else {}))
    page.click(f".map [data-path='{path}']")
    until(page, f"document.querySelector('#title').textContent === '{title}'")
    settled(page)
    assert page.locator("#view .trouble").count() == 0
    now = state(page)
    assert now["model"] == model and now["text"] == TEXT and expected.items() <= now.items()
    if title == "Gates":
        order = [one["path"] for one in asked(studio, "flow", model=model, text=TEXT)["gates"]]
        assert int(now.get("picture", 0)) == order.index(path)


def test_the_experiment_counts_the_parameters(page, studio):
    start(page, studio, "tiny-bahdanau")
    page.click(".experiment .act")
    until(page, "document.querySelector('.experiment .answer').textContent.startsWith('Of ')")
    many = told(studio, "map/tiny-bahdanau")["parameters"]
    assert f"Of {many:,} parameters" in page.locator(".experiment .answer").inner_text()


def test_the_tour_has_three_steps(page, studio):
    start(page, studio, "tiny-transformer")
    page.click("button:text-is('Take the tour')")
    titles = []
    for _ in range(3):
        titles.append(page.locator("#title").inner_text())
        assert page.locator(".tour p").first.inner_text().startswith(f"{len(titles)} of 3")
        if len(titles) < 3:
            page.click(".tour button:text-is('Next')")
            until(page, f"document.querySelector('.tour b').textContent.startsWith('{len(titles) + 1} of 3')")
            settled(page)
    assert titles == ["Start", "Translate", "Steps"]
    page.click(".tour button:text-is('Done')")
    until(page, "document.querySelector('.tour').hidden")


def test_an_unknown_model_has_no_map(studio):
    from urllib.error import HTTPError

    with pytest.raises(HTTPError, match="404"):
        told(studio, "map/..%2Fetc")


WATCHED = """
window.longest = 0;
new PerformanceObserver((list) => {
  for (const one of list.getEntries()) window.longest = Math.max(window.longest, one.duration);
}).observe({ type: "longtask", buffered: true });
"""
SLOWER = 8
"""How many times slower than an idle machine a machine may be that runs tests."""


def test_the_first_drawing_is_there_within_a_second_and_no_task_blocks_the_page(browser, studio):
    """Even if the server is still loading its models, and none of them has answered."""

    def loading(route) -> None:
        found = route.fetch().json()
        route.fulfill(json={**found, "ready": False, "loading": "tiny-bahdanau"})

    with watched(browser, studio, viewport={"width": 1280, "height": 900}) as page:
        page.add_init_script(WATCHED)
        page.route("**/studio/models", loading)
        page.route("**/studio/ask/**", lambda route: route.fulfill(status=503, json={"error": "not yet"}))
        page.goto(f"{studio}/studio/")
        until(page, "performance.getEntriesByName('drawn').length > 0")
        assert page.evaluate("performance.getEntriesByName('drawn')[0].startTime") < 1000 * SLOWER
        assert page.locator(".map .block").count() > 5
        until(page, "document.querySelector('.says').textContent.includes('loading')")
        page.unroute("**/studio/ask/**")
        page.unroute("**/studio/models")
        page.wait_for_selector("html[data-ready]")
        page.wait_for_selector(".map .out b")
        assert page.evaluate("window.longest") < 200 * SLOWER


@pytest.mark.slow
def test_no_tab_blocks_the_page(browser, shipped_studio):
    with watched(browser, shipped_studio, viewport={"width": 1280, "height": 900}) as page:
        page.add_init_script(WATCHED)
        open_view(page, shipped_studio, "start", ".map .out b")
        for title in page.locator("nav a").all_inner_texts():
            page.evaluate("window.longest = 0")
            page.click(f"nav a:text-is('{title}')")
            until(page, f"document.querySelector('#title').textContent === '{title}'")
            settled(page)
            assert page.evaluate("window.longest") < 200 * SLOWER, title


@pytest.mark.slow
@pytest.mark.parametrize("model", ["fashion", "shapes", "shakespeare-lstm"])
def test_models_of_images_and_language(browser, shipped_studio, model):
    with watched(browser, shipped_studio, viewport={"width": 1280, "height": 900}) as page:
        page.goto(f"{shipped_studio}/studio/#view=start&model={model}")
        page.wait_for_selector(".map .out b")
        until(page, DRAWN)
        names = page.locator(".columns > section > .blocks > li").count()
        assert names == len(blocks(told(shipped_studio, f"map/{model}")))
        if model != "shakespeare-lstm":
            page.locator(".samples button").nth(1).click()
            until(page, "location.hash.includes('sample=')")
            until(page, DRAWN)
            page.locator(".map a.block").first.click()
            until(page, "document.querySelector('#title').textContent === 'Images'")
            settled(page)
