"""Models with several directions in the studio: two menus of languages, on every tab that translates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving.multilingual import write_multilingual
from studio.browsing import Studio, asked, open_view, running_studio, settled, until, write_tiny

import regard
from regard.serving.catalogue import ServedModel
from regard.studio.direction import with_direction
from regard.studio.models import describe
from regard.types import END

TEXT, PERSIAN = "wo ist der bahnhof ?", "ایستگاه کجاست ؟"
PANEL = ".panel:not(.outdated) .pair"
MODEL = ServedModel("m", Path("m"), "translate", directions={"de": ("en", "fr"), "fr": ("de",), "fa": ("en",)})


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    home = tmp_path_factory.mktemp("models")
    folders = {
        "babel": write_multilingual(home / "babel"),
        "tagged": write_multilingual(home / "tagged", target_tag="output"),
        "single": write_tiny(home / "single", "tiny-transformer"),
    }
    options = [part for folder in folders.values() for part in ("--model", str(folder))]
    with running_studio("--only", "--runs", str(home / "runs"), *options) as running:
        running.folders = folders
        yield running


def menu(page: Any, label: str) -> Any:
    return page.locator("#models select").nth(["Model", "From", "To"].index(label))


def options(page: Any, label: str) -> list[str]:
    return menu(page, label).locator("option").all_text_contents()


def translation(page: Any) -> str:
    page.wait_for_selector(PANEL)
    settled(page)
    return str(page.locator(".found .text").first.inner_text())


@pytest.mark.parametrize(
    ("source", "target", "told"),
    [
        ("de", "fr", {"source": "de", "target": "fr", "detected": False}),
        ("auto", "en", {"source": "de", "target": "en", "detected": True}),
        (None, "en", {"source": "de", "target": "en", "detected": True}),
        ("fr", None, {"source": "fr", "target": "de", "detected": False}),
        ("auto", "de", {"source": "fr", "target": "de", "detected": True}),
    ],
)
def test_the_source_is_detected_among_those_of_the_target(source: str, target: str, told: dict[str, Any]) -> None:
    fields = {"text": "Wo ist bitte der Bahnhof?", "source": source, "target": target, "beam": 2}
    wanted, languages = with_direction(MODEL, {key: value for key, value in fields.items() if value})
    assert languages == told
    assert wanted == {"text": fields["text"], "beam": 2, "source": told["source"], "target": told["target"]}


def test_a_model_with_one_direction_is_told_nothing() -> None:
    single = ServedModel("s", Path("s"), "translate", "fr", "en")
    assert with_direction(single, {"text": "a", "source": "de", "target": "it"}) == ({"text": "a"}, None)


def test_the_list_of_models_has_their_languages_once(tmp_path: Path) -> None:
    folder = write_multilingual(tmp_path / "babel")
    codes = ("de", "en", "fa", "fr")
    pairs = {source: tuple(code for code in codes if code != source) for source in codes}
    found = describe(ServedModel("babel", folder, "translate", directions=pairs))["directions"]
    assert found["sources"] == found["targets"] == ["en", "fr", "de", "fa"], "by name"
    assert found["pairs"] is None and found["names"]["fa"] == "Persian"
    found = describe(ServedModel("babel", folder, "translate", directions=MODEL.directions))["directions"]
    assert found["pairs"] == MODEL.directions
    assert describe(ServedModel("s", folder, "translate", "fr", "en"))["directions"] is None


def test_two_menus_choose_the_direction(page: Any, studio: Studio) -> None:
    model = regard.load(studio.folders["babel"], device="cpu", engine="torch")
    expected = {to: model.translate(TEXT, source="de", target=to, beam=4).text for to in ("en", "fr")}
    assert expected["en"] != expected["fr"]
    open_view(page, studio, "translate", PANEL, model="babel", text=TEXT)
    assert options(page, "From")[1:] == ["English", "French", "German", "Persian"]
    assert menu(page, "To").input_value() == "en" and translation(page) == expected["en"]
    until(page, "document.querySelector('.direction option').textContent === 'Detect: German'")
    menu(page, "To").select_option("fr")
    page.wait_for_url(re.compile("to=fr"))
    assert translation(page) == expected["fr"]
    assert page.locator(f"{PANEL} .words").nth(1).get_attribute("lang") == "fr"
    menu(page, "From").select_option("de")
    page.wait_for_url(re.compile("from=de"))
    assert "German" not in options(page, "To") and translation(page) == expected["fr"]
    menu(page, "From").select_option("fr")  # the target as the source: they are swapped
    page.wait_for_url(re.compile("from=fr.*to=de|to=de.*from=fr"))
    page.go_back()
    until(page, "document.querySelectorAll('.direction select')[0].value === 'de'")
    menu(page, "Model").select_option("single")
    until(page, "!document.querySelector('.direction')")


@pytest.mark.parametrize("view", ["beam", "heads", "numbers", "gradients", "steps"])
def test_every_tab_has_them_and_asks_again(page: Any, studio: Studio, view: str) -> None:
    sent: list[dict[str, Any]] = []
    page.on("request", lambda request: sent.append(request.post_data_json) if "/ask/" in request.url else None)
    wait = ".steps .token" if view == "steps" else "figure"
    open_view(page, studio, view, wait, model="babel", text=TEXT)
    settled(page)
    before = len(sent)
    assert all((one["source"], one["target"]) == ("auto", "en") for one in sent)
    menu(page, "To").select_option("fr")
    until(page, "new URLSearchParams(location.hash.slice(1)).get('to') === 'fr'")
    page.wait_for_timeout(300)  # tabs wait for further keys before they ask
    settled(page)
    assert len(sent) > before and all(one["target"] == "fr" for one in sent[before:])


def test_text_from_right_to_left_says_so(page: Any, studio: Studio) -> None:
    open_view(page, studio, "translate", PANEL, model="babel", text=PERSIAN, **{"from": "fa", "to": "de"})
    source = page.locator(f"{PANEL} .words").first
    assert source.get_attribute("dir") == "rtl" and source.get_attribute("lang") == "fa"
    box = page.locator("#typed")
    assert box.get_attribute("lang") == "fa" and box.get_attribute("dir") == "auto"
    first, last = (source.locator("button").nth(at).bounding_box() for at in (0, -1))
    assert first["x"] > last["x"], "its first word is on the right"
    open_view(page, studio, "steps", ".steps .words", model="babel", text=PERSIAN, **{"from": "fa", "to": "de"})
    settled(page)
    assert page.locator(".steps .words").get_attribute("dir") == "rtl"
    assert page.locator(".steps .line").get_attribute("lang") == "de"


def test_the_tag_of_the_language_is_given_in_steps(page: Any, studio: Studio) -> None:
    """The first token of the output says the language: it is shown, and nothing else can be chosen there."""
    model = regard.load(studio.folders["tagged"], device="cpu", engine="torch")
    (told,) = model.marks([TEXT], "de", "fr")
    own = asked(studio, "continue_translation", model="tagged", text=TEXT, source="de", target="fr")
    assert own["tags"] == 1 and own["ids"][0] == told.prefix[0]
    (found,) = model.search([model.encode(TEXT, told)], beam=4, max_length=13, prefix=told.prefix)[0]
    assert own["ids"] == found.ids + ([END] if found.finished else [])
    open_view(page, studio, "steps", ".steps .token", model="tagged", text=TEXT, **{"from": "de", "to": "fr"})
    settled(page)
    tokens = page.locator(".steps .target .token")
    assert tokens.first.is_disabled() and tokens.nth(1).get_attribute("aria-current") == "step"
    assert page.get_by_role("button", name="← Back").is_disabled()
    other = next(one for one in page.locator(".next [data-id]").all() if one.get_attribute("aria-pressed") == "false")
    chosen = other.get_attribute("data-id")
    other.click()
    page.wait_for_url(re.compile(rf"way={told.prefix[0]}\.{chosen}"))
    settled(page)
    assert not page.locator(".trouble").count()
