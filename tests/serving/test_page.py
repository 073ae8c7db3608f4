"""The page to translate in a browser, with a server whose translations are upper case (fakes.py)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving.running import Running, fake_server
from studio.browsing import browser, until, watched

from regard.suggestions import Suggestions

__all__ = ["browser"]
SHOWN = "document.querySelector('#translation').textContent"
CLOSE = {"color_scheme": "light", "viewport": {"width": 1280, "height": 900}}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("suggestions") / "file.db"


@pytest.fixture(scope="module")
def server(file: Path) -> Iterator[Running]:
    with fake_server(suggestions=str(file), char_limit=200) as running:
        yield running


def opened(page: Any, server: str) -> None:
    page.goto(f"{server}/")
    until(page, "!!document.querySelector('#source')")


def test_a_text_is_translated_as_it_is_typed_corrected_swapped_and_copied(browser, server, file):
    with watched(browser, server, permissions=["clipboard-read", "clipboard-write"], **CLOSE) as page:
        asked: list[str] = []
        page.on(
            "request", lambda request: asked.append(request.post_data or "") if "/translate" in request.url else None
        )
        opened(page, server)
        page.locator("#source").press_sequentially("Je suis là, mon ami. Et toi ?", delay=5)
        until(page, f"{SHOWN} === 'JE SUIS LÀ, MON AMI. ET TOI ?'")
        assert len(asked) < 6, "it asks when one pauses, not at every key"
        assert page.locator("#from option:checked").inner_text() == "French (detected)"
        assert page.locator("#translation").get_attribute("lang") == "en"
        # A correction: only the sentence that was changed is sent.
        page.click("text=Suggest a correction")
        assert page.input_value("#suggestion") == "JE SUIS LÀ, MON AMI. ET TOI ?"
        page.fill("#suggestion", "I am here, my friend. ET TOI ?")
        page.click("text=Send")
        until(page, "document.querySelector('.result [role=status]').textContent.startsWith('Thank you')")
        (sent,) = Suggestions(file, create=False).all()
        assert (sent.text, sent.suggestion) == ("Je suis là, mon ami.", "I am here, my friend.")
        assert (sent.source, sent.target) == ("fr", "en")
        page.click("text=Copy")
        until(page, "document.querySelector('.result [role=status]').textContent === 'Copied.'")
        assert page.evaluate("navigator.clipboard.readText()") == "JE SUIS LÀ, MON AMI. ET TOI ?"
        page.click("#swap")
        assert page.input_value("#source") == "JE SUIS LÀ, MON AMI. ET TOI ?"
        assert page.input_value("#from") == "en" and page.input_value("#to") == "fr"
        # An outdated answer is never shown, and a text beyond the limit is not even sent.
        page.fill("#source", "x" * 201)
        until(
            page, "/takes 200 characters at once; the text has 201/.test(document.querySelector('#trouble').innerText)"
        )
        assert not any("x" * 201 in body for body in asked)
        page.click("text=Clear")
        assert page.evaluate(SHOWN) == "" and page.locator("#trouble").inner_text() == ""


def test_another_word_is_chosen_with_the_keyboard_and_terms_are_sent(browser, server):
    """The fake server knows no other words: what /api/continuations answers is made here."""
    with watched(browser, server, **CLOSE) as page:
        answers = [
            {"text": f"JE {word} MOI", "next_word": word, "score": -1, "log_probability": -1}
            for word in ("SAIS", "SUIS")
        ]
        asked: list[Any] = []

        def answer(route: Any) -> None:
            asked.append(route.request.post_data_json)
            route.fulfill(json={"model": "fr-en", "answers": answers})

        page.route("**/api/continuations", answer)
        opened(page, server)
        page.select_option("#from", "fr")
        page.fill("#source", "je suis moi")
        until(page, f"{SHOWN} === 'JE SUIS MOI'")
        page.focus(".word[tabindex='0']")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        until(page, "document.activeElement.closest('#alternatives') !== null")
        assert asked == [
            {"model": {"source": "fr", "target": "en"}, "text": "je suis moi", "prefix": "JE", "n_best": 8}
        ]
        assert page.locator("#alternatives li").all_inner_texts() == ["SAIS MOI"]  # not what is there already
        page.keyboard.press("Escape")
        assert page.evaluate("document.activeElement.textContent") == "SUIS"
        page.keyboard.press("Enter")
        until(page, "document.activeElement.closest('#alternatives') !== null")
        page.keyboard.press("Enter")
        until(page, f"{SHOWN} === 'JE SAIS MOI'")
        # The glossary of the pair is sent with the next request, and stays in this browser.
        page.click("#glossary summary")
        page.locator("#glossary input").nth(0).fill("moi")
        page.locator("#glossary input").nth(1).fill("myself")
        with page.expect_request("**/translate") as told:
            page.keyboard.press("Tab")
        assert told.value.post_data_json["glossary"] == [["moi", "myself"]]
        page.reload()
        until(page, "!!document.querySelector('#glossary input')")
        assert page.locator("#glossary input").nth(1).input_value() == "myself"
        assert page.input_value("#from") == "fr"


def test_words_of_low_confidence_are_marked_where_that_is_switched_on(browser, server):
    """The confidences are made here; characters are counted as the server does, an emoji as one."""
    with watched(browser, server, **CLOSE) as page:
        asked: list[Any] = []
        words = [{"start": start, "end": start + 3, "confidence": sure} for start, sure in ((2, 0.9), (6, 0.2))]
        found = {"translatedText": "😀 OUI NON", "sentences": [{"source": "😀 oui non", "translation": "😀 OUI NON"}]}
        doubt = {"confidence": 0.4, "words": words, "warnings": [{"check": "numbers", "message": "12 is missing"}]}

        def answer(route: Any) -> None:
            asked.append(route.request.post_data_json)
            route.fulfill(json={**found, "doubt": doubt} if "doubt" in asked[-1] else found)

        page.route("**/translate", answer)
        opened(page, server)
        page.select_option("#from", "fr")
        page.fill("#source", "😀 oui non")
        until(page, f"{SHOWN} === '😀 OUI NON'")
        assert page.locator(".doubtful").count() == 0 and "doubt" not in asked[-1]
        page.check("#marks")
        until(page, "document.querySelectorAll('.doubtful').length")
        assert page.locator(".doubtful").all_inner_texts() == ["NON"] and asked[-1]["doubt"] is True
        assert "dotted" in page.eval_on_selector(".doubtful", "one => getComputedStyle(one).textDecoration")
        assert page.locator(".warnings").inner_text() == "12 is missing"


def test_a_document_is_dropped_and_its_translation_fetched_and_text_stays_text(browser, server):
    with watched(browser, server, **CLOSE) as page:
        opened(page, server)
        page.select_option("#from", "fr")
        page.evaluate(
            "() => { const data = new DataTransfer(); data.items.add(new File(['Bonjour.'], 'a b.txt'));"
            " document.body.dispatchEvent(new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true})); }"
        )
        with page.expect_download() as fetched:
            page.click("text=Download (en)")
        assert Path(fetched.value.path()).read_text() == "BONJOUR."
        assert fetched.value.suggested_filename == "a b.txt"
        # Text stays text, and runs from right to left where it does.
        page.fill("#source", "<img src=x onerror=alert(1)> oui </script>")
        until(page, f"{SHOWN}.includes('OUI')")
        assert page.locator("#translation img").count() == 0
        page.fill("#source", "من دانشجو هستم")
        until(page, f"{SHOWN} === 'من دانشجو هستم'")
        for place in ("#source", "#translation"):
            assert page.eval_on_selector(place, "one => getComputedStyle(one).direction") == "rtl"


@pytest.mark.parametrize(("width", "colours"), [(360, "dark"), pytest.param(1280, "light", marks=pytest.mark.slow)])
def test_the_page_fits_and_axe_finds_nothing_serious(browser, server, width, colours):
    from axe_playwright_python.sync_playwright import Axe

    with watched(browser, server, viewport={"width": width, "height": 800}, color_scheme=colours) as page:
        opened(page, server)
        page.fill("#source", "Bonjour à tous.")
        until(page, f"{SHOWN} === 'BONJOUR À TOUS.'")
        page.click("#glossary summary")
        serious = [one for one in Axe().run(page).response["violations"] if one["impact"] in ("serious", "critical")]
        assert not [(one["id"], one["nodes"][0]["html"]) for one in serious]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_S12_a_key_is_asked_for_before_anything_is_shown_and_no_text_is_kept_for_when_the_server_is_gone(browser):
    with fake_server(api_keys=["secret"], req_limit=30) as server, watched(browser, server, **CLOSE) as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url.removeprefix(server)))
        page.goto(f"{server}/")
        until(page, "!!document.querySelector('#key')")
        assert not any(path.startswith(("/languages", "/api", "/translate")) for path in asked)
        assert "French" not in page.content() and "fr-en" not in page.content()
        page.fill("#key", "secret")
        page.keyboard.press("Enter")
        until(page, "!!document.querySelector('#source')")
        page.fill("#source", "Bonjour.")
        until(page, f"{SHOWN} === 'BONJOUR.'")
        assert page.evaluate("sessionStorage.getItem('key')") == "secret"
        assert not page.evaluate("JSON.stringify(localStorage)").count("secret")
        assert not any("secret" in path for path in asked)
        for _ in range(31):  # the limit is said in plain words
            page.evaluate("fetch('frontend/settings', {headers: {Authorization: 'Bearer secret'}})")
        page.fill("#source", "Salut.")
        until(
            page,
            "/more often than this server allows: try again in \\d+ s/.test(document.querySelector('#trouble').innerText)",
        )
        # The server stops. The page still opens, from its own files; nothing else was kept.
        kept = "caches.open('regard-page').then(one => one.keys()).then(all => all.map(one => one.url))"
        loaded = "performance.getEntriesByType('resource').map(one => one.name).filter(url => url.includes('/page/'))"
        until(page, f"{kept}.then(all => {loaded}.every(url => all.includes(url)) && all.includes('{server}/'))")
        assert all(re.fullmatch(rf"{server}/(page/[\w.]+)?", url) for url in page.evaluate(kept))
        page.route("**/frontend/settings", lambda route: route.abort("connectionrefused"))
        server.process.terminate()
        server.process.wait(30)
        page.goto(f"{server}/")
        until(page, "document.querySelector('#content').innerText.includes('does not answer')")
