"""The tab Why in a browser: what it draws is what `regard.attribute` says, and its address says the rest."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from studio.browsing import asked, open_view, settled, until
from task.seers import captioner, classifier

import regard
from regard.errors import UserError
from regard.studio.questions.attribute import answer

TEXT = "où est la gare ?"
NAME = "tiny-transformer"


@cache
def translator(folder: Path):
    return regard.load(folder, device="cpu")


def values(page) -> dict[str, float]:
    """`cell ROW COLUMN` -> the value in its tooltip."""
    cells = "all => all.map(one => [one.dataset.at, one.querySelector('title').textContent])"
    found = page.eval_on_selector_all("#view figure [data-at^='cell ']", cells)
    known = {at: float(words.rpartition(": ")[2]) for at, words in found}
    return dict(sorted(known.items(), key=lambda one: [int(part) for part in one[0].split()[1:]]))


def choose(page, what: str, value: str) -> None:
    page.locator(f"label.choice:has-text('{what}')").locator("select").select_option(value)
    settled(page)


def test_the_cells_are_what_python_says_and_a_row_can_be_asked_about(page, studio):
    open_view(page, studio, "why", model=NAME, text=TEXT, method="occlusion", units="tokens")
    settled(page)
    found = regard.attribute(translator(studio.folders[NAME]), TEXT, method="occlusion", tokens=True)
    drawn = values(page)
    assert len(drawn) == found.values.size
    for (row, column), value in np.ndenumerate(found.values):
        assert drawn[f"cell {row} {column}"] == pytest.approx(float(value), abs=1e-5)
    mean = f"{100 * found.source_shares.mean():.0f} %"
    assert mean in page.locator("#view .regard-attribution").text_content()

    page.locator("#view [data-at='row 1']").click()
    page.wait_for_url(re.compile("output=1"))
    settled(page)
    others = page.locator("label.choice:has-text('And not') option").evaluate_all("all => all.map(one => one.value)")
    assert others[0] == "" and len(others) > 3 and found.rows[1] not in others
    choose(page, "And not", others[1])
    one = regard.attribute(
        translator(studio.folders[NAME]), TEXT, method="occlusion", tokens=True, position=1, contrast=others[1]
    )
    assert list(values(page).values()) == pytest.approx(one.values[0].tolist(), abs=1e-5)
    assert "and not" in page.locator(".why-said").inner_text()
    before = values(page)
    page.reload()
    page.wait_for_selector("#view .regard-attribution")
    settled(page)
    assert values(page) == before  # a link is enough
    choose(page, "Output", "")
    assert "output=" not in page.url and len(values(page)) == found.values.size


def test_only_methods_that_the_model_has_are_offered(page, studio):
    open_view(page, studio, "why", model="tiny-none", text=TEXT, method="rollout")
    settled(page)
    methods = "label.choice:has-text('Method') option"
    offered = page.locator(methods).evaluate_all("all => all.map(one => one.value)")
    assert offered == ["input_x_gradient", "integrated_gradients", "occlusion"]
    assert page.locator("label.choice:has-text('Method') select").input_value() in offered
    page.select_option("#models select", NAME)
    page.locator(f"{methods}[value=rollout]").wait_for(state="attached")
    settled(page)
    choose(page, "Method", "rollout")
    assert page.locator("label.choice:has-text('And not')").count() == 0
    choose(page, "Method", "integrated_gradients")  # one output at a time, the least certain
    assert "Completeness error" in page.locator("#view").inner_text()
    assert len({at.split()[1] for at in values(page)}) == 1


def test_the_experiments_answer_from_the_model_at_hand(page, studio):
    open_view(page, studio, "why", model=NAME, text=TEXT)
    settled(page)
    shares = asked(studio, "attribute", model=NAME, text=TEXT, method="occlusion")["source_shares"]
    said = []
    for _ in range(3):
        page.locator(".experiment button.act").click()
        until(page, "document.querySelector('.experiment').getAttribute('aria-busy') === 'false'")
        said.append(page.locator(".experiment .answer").inner_text())
        settled(page)
        page.locator(".experiment button.plain").click()
    percent = 100 * min(shares)
    assert (f"{percent:.0f} %" if percent >= 9.95 else f"{percent:.1f} %") in said[0]
    assert "and not" in said[1] and re.search(r"by \d+\.\d\d in log-probability", said[1])
    assert re.search(r"In \d+ of \d+ rows?", said[2])


@pytest.mark.parametrize("task, sample, pictures", [(classifier, "bag", 1), (captioner, "shapes-1", 2)])
def test_images_are_explained_by_their_places(task, sample, pictures):
    model = task()
    for method in ("input_x_gradient", "occlusion", "rollout"):
        found = answer(model, {"model": "some", "sample": sample, "method": method})
        assert len(found["pictures"]) == pictures and "regard-attribution" in found["pictures"][0]["svg"]
        assert found["method"] in found["methods"]  # the captioner is recurrent: no rollout
    assert len(found["values"][0]) == len(found["columns"])


def test_what_cannot_be_asked_is_one_line():
    with pytest.raises(UserError, match="either a text or an image"):
        answer(classifier(), {"model": "some", "sample": "bag", "text": "a bag"})
    with pytest.raises(UserError, match="does not read text"):
        answer(classifier(), {"model": "some", "text": "a bag"})
