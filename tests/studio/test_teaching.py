"""The teacher's page: twelve stops whose links open what they say, and whose commands exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from studio.browsing import settled, until, watched
from typer.main import get_command

from regard.cli import app
from regard.cli.inspect import VIEWS
from regard.lab._listing import entries
from regard.pretrained import shipped_models

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "teaching.md").read_text(encoding="utf-8")
LINKS = re.findall(r"\]\((http://127\.0\.0\.1:5050/studio/#[^)\s]+)\)", PAGE)
COMMANDS = re.findall(r"^\$ (regard .*)$", PAGE, re.M)
KEYS = {"view", "model", "text", "with", "attention", "layer", "head", "beam", "block", "off"}


def state(link: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(link).fragment).items()}


def test_twelve_stops_each_with_something_to_open_to_show_and_to_ask():
    stops = re.split(r"^## (?=\d)", PAGE, flags=re.M)[1:]
    assert [int(stop.split()[0]) for stop in stops] == list(range(1, 13))
    for stop in stops:
        assert "/studio/#view=" in stop and "- **Show**:" in stop and "- **Ask**:" in stop


def test_the_links_name_views_and_models_that_exist():
    views = ROOT / "regard" / "studio" / "page" / "views"
    assert len(LINKS) >= 12
    for link in LINKS:
        asked = state(link)
        assert asked.keys() <= KEYS and (views / f"{asked['view']}.js").is_file(), link
        for model in [asked["model"], *filter(None, asked.get("with", "").split(","))]:
            assert model in shipped_models(), link


def test_the_commands_exist():
    known = get_command(app).commands  # type: ignore[attr-defined]
    assert {words.split()[1] for words in COMMANDS} >= {"studio", "lab", "inspect"}
    for command in COMMANDS:
        _, name, *rest = shlex.split(command)
        options = {option for parameter in known[name].params for option in parameter.opts}
        assert {word for word in rest if word.startswith("--")} <= options, command
        if name == "lab":
            assert rest[0] in {entry.name for entry in entries()}, command
        if "--view" in rest:
            assert rest[rest.index("--view") + 1] in VIEWS, command


def test_the_models_do_what_the_page_says():
    """Stop 5: the alignment crosses. Stop 8: the weights on the next and on the previous token."""
    import regard

    trace = regard.inspect("fr-en-bahdanau", "Il mange une pomme verte.")
    most = {word: trace.source.words[row.argmax()] for word, row in zip(trace.target.words, trace.word_matrix())}
    assert (most["green"], most["apple."]) == ("verte.", "pomme")
    layers = regard.inspect("fr-en", "Je suis étudiant.").of_kind("source")
    after, before = layers[0].weights[0].diagonal(1), layers[1].weights[0].diagonal(-1)
    assert after.mean() > 0.7 and before.mean() > 0.5


@pytest.mark.slow
def test_every_link_opens_without_an_error(browser, shipped_studio):
    with watched(browser, shipped_studio, viewport={"width": 1280, "height": 900}) as page:
        for link in LINKS:
            page.goto("about:blank")
            page.goto(link.replace("http://127.0.0.1:5050", shipped_studio))
            page.wait_for_selector("html[data-ready]")
            settled(page)
            until(
                page,
                "document.querySelector('#view figure, #view .panel, #view .map .out b, #view .bars, #view .sight')",
            )
            asked = state(link)
            assert page.locator("#view .trouble, #notice:not(:empty)").count() == 0, link
            assert page.locator("#content").get_attribute("data-view") == asked["view"], link
            assert page.evaluate("document.querySelector('#models select').value") == asked["model"], link
            if "text" in asked and asked["view"] != "positions":
                assert asked["text"] in page.input_value("#view textarea"), link
