"""The documentation page in a browser: the "Try it" box asks this server, and shows its answer word for word."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import pytest
from serving.running import Running, fake_server, running_server
from studio.browsing import browser, until, watched

__all__ = ["browser"]
ANSWER = "document.querySelector('#try-answer').textContent"


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running_server() as running:
        yield running


def asked(server: str, **body: Any) -> Any:
    request = Request(f"{server}/translate", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with build_opener(ProxyHandler({})).open(request, timeout=60) as answer:
        return json.load(answer)


def test_the_box_shows_what_the_server_answers(browser, server):
    with watched(browser, server, viewport={"width": 1280, "height": 900}) as page:
        page.goto(f"{server}/docs")
        first = asked(server, q="Je suis étudiant.", source="fr", target="en")
        shown = page.locator("section:has(h3 code:text-is('/translate')) .example pre").nth(1).inner_text()
        assert json.loads(shown) == first
        until(page, "!document.querySelector('#try-send').disabled")
        assert page.input_value("#try-text") == "Je suis étudiant."
        assert page.input_value("#try-source") == "fr" and page.input_value("#try-target") == "en"
        page.fill("#try-text", "Où est l'hôtel ?")
        assert "l'\\''hôtel" in page.locator("#try-request").inner_text()
        page.keyboard.press("Control+Enter")
        until(page, "document.querySelector('#try-status').textContent.startsWith('200')")
        assert json.loads(page.evaluate(ANSWER)) == asked(server, q="Où est l'hôtel ?", source="fr", target="en")


@pytest.mark.parametrize(
    ("width", "colours"),
    [(360, "light"), *(pytest.param(*one, marks=pytest.mark.slow) for one in ((360, "dark"), (1280, "light")))],
)
def test_the_page_has_no_serious_finding_of_axe_and_fits(browser, server, width, colours):
    from axe_playwright_python.sync_playwright import Axe

    with watched(browser, server, viewport={"width": width, "height": 900}, color_scheme=colours) as page:
        page.goto(f"{server}/docs")
        until(page, "!document.querySelector('#try-send').disabled")
        serious = ("serious", "critical")
        found = [one for one in Axe().run(page).response["violations"] if one["impact"] in serious]
        assert not [(one["id"], one["nodes"][0]["html"]) for one in found]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_key_is_asked_for_where_one_is_needed(browser):
    with fake_server(api_keys=["secret"]) as server, watched(browser, server) as page:
        page.goto(f"{server}/docs")
        until(page, "!document.querySelector('#try-send').disabled")
        page.fill("#try-key", "secret")
        assert "Bearer KEY" in page.locator("#try-request").inner_text()
        page.click("#try-send")
        until(page, f"{ANSWER}.includes('JE SUIS')")
