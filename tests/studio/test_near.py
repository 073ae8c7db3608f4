"""The tab Near in a browser: what it lists is what Python finds, and without an index it says how to make one."""

from __future__ import annotations

import pytest
from studio.browsing import LINES, open_view, settled, until, watched

import regard
from regard.inspection.trace.base import SOURCE, Choice
from regard.inspection.word_index import build_index, default_path, write_index

TEXT = LINES[2]
NAMES = ["tiny-transformer", "tiny-bahdanau"]


@pytest.fixture(scope="module")
def indexed(studio):
    """Indexes in the cache that the studio's workers use, too."""
    files = []
    translators = {}
    for name in NAMES:
        translators[name] = regard.load(studio.folders[name], device="cpu", engine="torch")
        file = default_path(translators[name].model)
        write_index(build_index(translators[name], LINES, LINES[::-1]), file)
        files.append(file)
    yield translators
    for file in files:
        file.unlink()


@pytest.mark.parametrize("name", NAMES)
def test_the_list_is_what_python_finds(page, studio, indexed, name):
    open_view(page, studio, "near", ".near-list li", model=name, text=TEXT, side="source", word="2")
    settled(page)
    found = indexed[name].inspect(TEXT).near_of(Choice(attention=SOURCE, position=2))
    shown = page.eval_on_selector_all(".near-list li", "all => all.map(one => Number(one.dataset.similarity))")
    assert shown == pytest.approx([one.similarity for one in found.neighbours], abs=1e-4)
    assert page.locator(".near-list mark").first.inner_text() == TEXT.split()[2]
    assert [" ".join(one.split()) for one in page.locator(".near-list li p:first-child").all_text_contents()] == [
        " ".join(one.source) for one in found.neighbours
    ]
    page.get_by_role("group", name="Source: press a word").locator("button").nth(1).click()
    until(page, "location.hash.includes('word=1')")
    settled(page)
    assert page.locator(".near-list mark").first.inner_text() == TEXT.split()[1]
    page.click(".near .pictures summary")
    assert page.locator(".regard-near").is_visible()


def test_without_an_index_it_says_how_to_make_one(page, studio):
    open_view(page, studio, "near", "pre", model="tiny-universal", text=TEXT, side="source")
    assert page.locator("#view pre").inner_text() == "regard index tiny-universal --source FILE --target FILE"
    page.click(".experiment .act")
    until(page, "document.querySelector('.experiment .answer').textContent.includes('no index')")


def test_the_experiment_counts_words(page, studio, indexed):
    open_view(page, studio, "near", ".near-list li", model="tiny-transformer", text=TEXT, side="source")
    page.click(".experiment .act")
    until(page, "document.querySelector('.experiment .answer').textContent.length > 10")
    trace = indexed["tiny-transformer"].inspect(TEXT)
    same = 0
    for position, word in enumerate(trace.source.words):
        first = trace.near_of(Choice(attention=SOURCE, position=position)).neighbours[0]
        same += first.source[first.word].strip(".") == word.strip(".")
    assert page.locator(".experiment .answer").inner_text().startswith(f"{same} of {len(trace.source.words)} words")


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_axe_and_a_phone(browser, studio, indexed, colours):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    size = {"width": 360, "height": 740}
    with watched(browser, studio, viewport=size, color_scheme=colours) as page:
        open_view(page, studio, "near", ".near-list li", model="tiny-transformer", text=TEXT, side="source")
        settled(page)
        serious = [one for one in axe.run(page).response["violations"] if one["impact"] in ("serious", "critical")]
        assert not serious, serious
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
