"""R22: the twelve checks of the studio in a browser, and S9: whatever is typed, named or refused, it stays words.

That no page asks anything of another address, throws, or logs an error is part of each of them (browsing.py)."""

from __future__ import annotations

import json
import time
from xml.etree import ElementTree

import pytest
from studio.browsing import asked, open_view, settled, until, watched

HOSTILE = "</script><img src=x onerror=alert(1)>{{7*7}}javascript:alert(1)"
WIDE = {"width": 1280, "height": 900}
BUSY = """() => {
  window.longest = 0;
  new PerformanceObserver((list) => {
    for (const task of list.getEntries()) window.longest = Math.max(window.longest, task.duration);
  }).observe({ type: "longtask" });
}"""


def tabs(page) -> list[str]:
    return page.eval_on_selector_all(
        "nav a", "links => links.map(a => new URLSearchParams(a.hash.slice(1)).get('view'))"
    )


def test_R22_01_every_view_opens_with_the_network_blocked(page, studio):
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    open_view(page, studio, "heads")
    for view in tabs(page):
        page.click(f"nav a[href*='view={view}&'], nav a[href$='view={view}']")
        settled(page)
        assert page.locator("#about").inner_text() and page.locator("#about a").count()
    assert [url for url in requests if not url.startswith(studio)] == [] and len(requests) > 10


def test_R22_02_512_tokens_are_refused_within_two_seconds_and_without_a_freeze(page, studio):
    open_view(page, studio, "heads")
    page.evaluate(BUSY)
    began = time.monotonic()
    page.fill("textarea", "é" * 512)
    message = page.wait_for_selector("#view .trouble").inner_text()
    assert time.monotonic() - began < 2
    assert "512 tokens" in message and "128" in message
    page.fill("textarea", "je suis " * 15)  # 120 tokens: as much as is drawn
    page.wait_for_selector("#view figure")
    settled(page)
    assert page.evaluate("window.longest") < 200


def test_R22_03_an_empty_text_says_what_to_do(page, studio):
    open_view(page, studio, "heads")
    page.fill("textarea", "   ")
    assert "type a sentence" in page.wait_for_selector("#view .trouble").inner_text()
    assert page.locator("#view .trouble button").count() == 0  # trying again would not help
    page.fill("textarea", "oui")
    page.wait_for_selector("#view figure")


@pytest.mark.parametrize("text", ["من دانشجو هستم.", "Je 🙂 suis 👩‍👩‍👧‍👦 étudiant 🏳️‍🌈"])
def test_R22_04_and_05_right_to_left_text_and_emoji(page, studio, text):
    open_view(page, studio, "beam", text=text)
    area = page.locator("textarea")
    assert area.input_value() == text
    wanted = "rtl" if text.startswith("م") else "ltr"
    assert area.evaluate("area => getComputedStyle(area).direction") == wanted
    shown = page.locator("#view svg").first.get_attribute("aria-label")
    assert shown.replace("\u2068", "").replace("\u2069", "").startswith(text)


def test_R22_06_a_server_that_is_down_is_said_in_place_and_can_be_asked_again(page, studio):
    open_view(page, studio, "beam")
    page.route("**/studio/ask/**", lambda route: route.abort("connectionrefused"))
    page.fill("textarea", "oui !")
    trouble = page.wait_for_selector("#view .trouble")
    assert "does not answer" in trouble.inner_text()
    assert page.input_value("textarea") == "oui !"
    page.unroute("**/studio/ask/**")
    page.click("#view .trouble button")
    page.wait_for_selector("#view figure")
    assert page.locator("#view svg").get_attribute("aria-label").startswith("oui !")


def test_R22_07_an_answer_of_the_old_model_never_shows_under_the_new_one(page, studio):
    drawings = "document.querySelectorAll('#view figure').length"
    open_view(page, studio, "gates", ".second figure", model="tiny-bahdanau")
    old = page.locator("#view .side-by-side").inner_html()
    held = []
    page.route(
        "**/studio/ask/**",
        lambda route: held.append(route) if '"tiny-bahdanau"' in route.request.post_data else route.continue_(),
    )
    page.fill("textarea", "oui oui")
    page.wait_for_timeout(600)
    assert len(held) == 1
    page.select_option("#models select", "tiny-none")
    until(page, f"{drawings} === 2")
    settled(page)
    drawn = page.locator("#view .side-by-side").inner_html()
    for route in held:
        route.fulfill(status=200, body=json.dumps(asked(studio, "draw_view", **json.loads(route.request.post_data))))
    page.wait_for_timeout(300)
    assert page.locator("#view .side-by-side").inner_html() == drawn != old
    assert page.input_value("#models select") == "tiny-none"


@pytest.mark.parametrize("view", ["heads", "beam"])
def test_R22_07_what_was_typed_last_is_not_asked_of_the_old_model_after_the_new_one(page, studio, view):
    """The page waits for a pause in typing; what waits then must not come after the question to the new model."""
    open_view(page, studio, view, model="tiny-transformer", text="oui")
    settled(page)
    sent = []
    page.on("request", lambda one: sent.append(json.loads(one.post_data)["model"]) if "/ask/" in one.url else None)
    page.evaluate(
        """() => {
          const [area, models] = ["textarea", "#models select"].map((one) => document.querySelector(one));
          area.value = "oui oui";
          area.dispatchEvent(new Event("input"));
          models.value = "tiny-universal";
          models.dispatchEvent(new Event("change"));
        }"""
    )
    page.wait_for_timeout(500)
    settled(page)
    assert set(sent) == {"tiny-universal"}


def test_R22_08_back_and_forward_restore_view_text_model_layer_and_head(page, studio):
    open_view(page, studio, "heads", text="oui")
    page.select_option("#models select", "tiny-universal")
    until(page, "document.querySelector('select option:checked') && document.querySelector('#view figure')")
    page.get_by_label("Layer").and_(page.locator("select")).select_option("2")
    page.get_by_label("Head").and_(page.locator("select")).select_option("3")
    page.locator("textarea").press_sequentially(" bien")
    page.click("nav a[href*='view=beam']")  # before the address has heard of the last letters
    assert page.input_value("textarea") == "oui bien"
    page.go_back()
    until(page, "document.querySelector('#view figure h2')?.textContent.includes('layer 2, head 3')")
    assert page.input_value("textarea") == "oui bien" and page.input_value("#models select") == "tiny-universal"
    page.go_back()  # the text, typed in one go, is one step
    until(page, "document.querySelector('textarea').value === 'oui'")
    for _ in range(3):
        page.go_back()
    until(page, "document.querySelector('#models select').value === 'tiny-transformer'")
    for _ in range(5):
        page.go_forward()
    until(page, "document.querySelector('nav a[aria-current]').textContent === 'Beam'")
    assert page.input_value("textarea") == "oui bien" and page.input_value("#models select") == "tiny-universal"
    page.reload()
    page.wait_for_selector("#view figure")
    assert page.input_value("textarea") == "oui bien"


def saved(page, kind: str, folder) -> bytes:
    with page.expect_download() as found:
        page.locator("#view figure").first.get_by_role("button", name=f"Save as {kind}").click()
    assert found.value.suggested_filename.endswith(f".{kind.lower()}")
    path = folder / found.value.suggested_filename
    found.value.save_as(path)
    return path.read_bytes()


@pytest.mark.parametrize("text", ["je suis étudiant .", HOSTILE])
def test_R22_09_and_S9_svg_png_and_html_open_by_themselves(page, studio, browser, tmp_path, text):
    from io import BytesIO

    from PIL import Image

    open_view(page, studio, "beam", text=text, model="tiny-transformer")
    svg = saved(page, "SVG", tmp_path)
    (own,) = asked(studio, "draw_view", model="tiny-transformer", text=text, view="beam", beam=4)["pictures"]
    assert svg.decode() == own["svg"]  # what `regard inspect` would write
    tags = {one.tag.rpartition("}")[2] for one in ElementTree.fromstring(svg).iter()}
    assert tags <= {"svg", "style", "rect", "g", "text", "title", "line", "path"}
    image = Image.open(BytesIO(saved(page, "PNG", tmp_path))).convert("RGB")
    colours = {colour for _, colour in image.getcolors(1 << 24)}
    assert (255, 255, 255) in colours and (0x43, 0x20, 0x9E) in colours and len(colours) > 20
    saved(page, "HTML", tmp_path)
    (file,) = tmp_path.glob("*.html")
    context = browser.new_context()
    alone, wrong = context.new_page(), []
    alone.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
    alone.on("console", lambda message: wrong.append(message.text))
    alone.on("request", lambda request: wrong.append(request.url) if request.url != file.as_uri() else None)
    alone.goto(file.as_uri())
    assert alone.locator("svg text").count() > 5 and alone.locator("img, script").count() == 0
    assert text.split()[0] in alone.locator("svg").first.text_content()
    context.close()
    assert not wrong


def test_R22_10_everything_can_be_done_with_the_keyboard(page, studio):
    open_view(page, studio, "heads")
    reached = []

    def tab() -> str:
        page.keyboard.press("Tab")
        name, outline = page.evaluate(
            "() => { const e = document.activeElement; return [e.id || e.innerText || e.name || e.tagName, getComputedStyle(e).outlineStyle] }"
        )
        reached.append(name.strip())
        assert outline not in ("none", ""), f"{name}: it cannot be seen that it has the focus"
        return reached[-1]

    assert tab() == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    while tab() != "TEXTAREA":
        assert len(reached) < 20
    page.keyboard.press("Control+A")
    page.keyboard.type("bien sûr !")
    until(page, "document.querySelector('#view .regard-grid')?.getAttribute('aria-label').startsWith('bien')")
    tab(), tab(), tab()
    page.keyboard.press("ArrowDown")  # the third picker is the head
    until(page, "document.querySelector('#view figure h2').textContent.endsWith('head 1')")
    assert page.evaluate("document.activeElement.closest('label').innerText").startswith("Head")
    while not page.evaluate("document.activeElement.classList.contains('drawing')"):
        tab()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert page.locator("#view figure .value").first.inner_text()
    page.locator("nav a", has_text="Beam").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#view .regard-tree")
    assert page.evaluate("document.activeElement.innerText") == "Beam"


@pytest.mark.parametrize("colours", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_R22_11_axe_has_no_serious_finding_in_any_view(browser, studio, colours):
    from axe_playwright_python.sync_playwright import Axe

    with watched(browser, studio, viewport=WIDE, color_scheme=colours) as page:
        open_view(page, studio, "heads")
        found = []
        for view in tabs(page):
            page.click(f"nav a[href*='view={view}&'], nav a[href$='view={view}']")
            settled(page)
            # Only colours differ between the two, and looking for all else again would take as long again.
            rules = {"runOnly": ["color-contrast"]} if colours == "dark" else None
            for one in Axe().run(page, options=rules).response["violations"]:
                if one["impact"] in ("serious", "critical"):
                    found.append((view, one["id"], [node["html"][:150] for node in one["nodes"]][:3]))
        assert not found


@pytest.mark.slow
@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1920])
def test_R22_11_axe_has_no_serious_finding_at_any_width(browser, shipped_studio, colours, width):
    from axe_playwright_python.sync_playwright import Axe

    with watched(browser, shipped_studio, viewport={"width": width, "height": 900}, color_scheme=colours) as page:
        open_view(page, shipped_studio, "start", ".map .out b")
        found = []
        for view in tabs(page):
            page.locator(f"nav a[href*='view={view}&'], nav a[href$='view={view}']").click()
            settled(page)
            for one in Axe().run(page).response["violations"]:
                if one["impact"] in ("serious", "critical"):
                    found.append((view, one["id"], [node["html"][:150] for node in one["nodes"]][:3]))
        assert not found


def test_R22_12_nothing_runs_over_the_side_of_a_narrow_screen(browser, studio):
    with watched(browser, studio, viewport={"width": 360, "height": 740}) as page:
        open_view(page, studio, "heads", text="elle a lu ce livre deux fois . " * 3)
        for view in tabs(page):
            page.click(f"nav a[href*='view={view}&'], nav a[href$='view={view}']")
            settled(page)
            assert page.evaluate("document.documentElement.scrollWidth") <= 360, view


def test_S9_hostile_words_stay_words_wherever_they_come_from(page, studio):
    """In the address, as a text, in names and reasons of models, and in what the server refuses."""

    def models(route) -> None:
        found = route.fetch().json()
        found["failed"] = [{"name": HOSTILE, "why": HOSTILE}]
        found["models"][0]["title"] = HOSTILE
        route.fulfill(json=found)

    page.route("**/studio/models", models)
    open_view(page, studio, "heads", text=HOSTILE, layer=HOSTILE, head=HOSTILE, attention=HOSTILE, picture=HOSTILE)
    assert page.input_value("textarea") == HOSTILE
    assert HOSTILE in page.locator("#models").text_content()
    for view in ("beam", HOSTILE):
        open_view(page, studio, view, "figure, .map", text=HOSTILE, model=HOSTILE, beam=2, block=HOSTILE)
    page.route("**/studio/ask/**", lambda route: route.fulfill(status=400, json={"error": HOSTILE}))
    open_view(page, studio, "beam", wait=".trouble", text="oui")
    assert page.locator("#view .trouble").inner_text() == HOSTILE
    assert page.locator("img").count() == 0 and page.locator("script").count() == 1
    assert page.locator("body").text_content().count("49") == 0


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 360])
def test_R22_every_view_of_every_shipped_model(browser, shipped_studio, width):
    """The same three checks, and that something is drawn, for all that a fresh install shows."""
    from axe_playwright_python.sync_playwright import Axe

    with watched(browser, shipped_studio, viewport={"width": width, "height": 800}) as page:
        page.goto(f"{shipped_studio}/studio/#view=heads")
        page.wait_for_selector("html[data-ready]")
        found = []
        for view in tabs(page):
            page.click(f"nav a[href*='view={view}&'], nav a[href$='view={view}']")
            for model in page.eval_on_selector_all("#models option", "all => all.map(one => one.value)") or [""]:
                if model:
                    page.select_option("#models select", model)
                settled(page)
                if page.locator("#view .trouble").count():
                    found.append((view, model, page.locator("#view .trouble").first.inner_text()))
                if page.evaluate("document.documentElement.scrollWidth") > width:
                    found.append((view, model, "runs over the side"))
            for one in Axe().run(page).response["violations"]:
                if one["impact"] in ("serious", "critical"):
                    found.append((view, one["id"], [node["html"][:150] for node in one["nodes"]][:3]))
        assert not found
