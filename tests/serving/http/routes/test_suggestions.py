"""/suggest as LibreTranslate has it; /api/continuations; and what /translate tells beyond LibreTranslate's."""

from __future__ import annotations

import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from serving.calling import call, form
from serving.fakes import FakePool, fake_app

from regard.serving.catalogue import Catalogue, ServedModel
from regard.serving.http.routes import suggestions
from regard.serving.state import digest_of
from regard.suggestions import MAX_CHARACTERS, Suggestions

GOOD = {"q": "Oui.", "s": "Yes.", "source": "fr", "target": "en"}


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "suggestions.db")


def kept(file: str) -> list[tuple[str, ...]]:
    return [(one.source, one.target, one.text, one.suggestion) for one in Suggestions(file, create=False).all()]


def test_a_suggestion_is_kept_with_its_owner(file: str) -> None:
    app = fake_app(suggestions=file, api_keys=("k",))
    assert call(app, "GET", "/frontend/settings").json()["suggestions"] is True
    assert call(app, "POST", "/suggest", **GOOD).status == 400  # no key
    for sent in ({**GOOD, "api_key": "k"}, form(**{**GOOD, "q": "Non.", "s": "No.", "api_key": "k"})):
        reply = call(app, "POST", "/suggest", **sent)
        assert (reply.status, reply.json()) == (200, {"success": True})
    assert sorted(kept(file)) == [("fr", "en", "Non.", "No."), ("fr", "en", "Oui.", "Yes.")]
    with sqlite3.connect(file) as connection:
        assert connection.execute("SELECT DISTINCT owner FROM suggestions").fetchall() == [(digest_of("k"),)]


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"q": ""}, "Invalid request: missing q parameter"),
        ({"s": ""}, "Invalid request: missing s parameter"),
        ({"source": None}, "Invalid request: missing source parameter"),
        ({"target": ""}, "Invalid request: missing target parameter"),
        ({"q": ["a"]}, "Invalid request: q parameter is not a string"),
        ({"source": "auto"}, "auto is not supported"),
        ({"target": "zz"}, "zz is not supported"),
        ({"s": "x" * (MAX_CHARACTERS + 1)}, "Invalid request: s (5001) exceeds text limit (5000)"),
    ],
)
def test_what_is_wrong_is_refused_and_not_kept(file: str, changed: dict[str, Any], message: str) -> None:
    reply = call(fake_app(suggestions=file), "POST", "/suggest", **{**GOOD, **changed})
    assert (reply.status, reply.json()) == (400, {"error": message})
    assert kept(file) == []


def test_a_full_file_and_one_that_fails_are_said(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suggestions, "Suggestions", partial(Suggestions, per_owner=1, in_all=1))
    app = fake_app(suggestions=file)
    assert call(app, "POST", "/suggest", **GOOD).status == 200
    reply = call(app, "POST", "/suggest", **{**GOOD, "q": "Non."})
    assert reply.status == 403 and "takes no more" in reply.json()["error"]
    with sqlite3.connect(file) as connection:
        connection.execute("DROP TABLE suggestions")
    reply = call(app, "POST", "/suggest", **GOOD)
    assert reply.status == 503 and "at present" in reply.json()["error"] and "retry-after" in reply.headers


def test_sentences_are_told_only_where_they_are_asked_for() -> None:
    app, text = fake_app(), "Un jour. Une nuit.\n\nOui."
    plain = call(app, "POST", "/translate", q=text, source="fr", target="en").json()
    assert set(plain) == {"translatedText"}
    found = call(app, "POST", "/translate", q=text, source="fr", target="en", sentences=True).json()
    pairs = [(one["source"], one["translation"]) for one in found["sentences"]]
    assert pairs == [("Un jour.", "UN JOUR."), ("Une nuit.", "UNE NUIT."), ("Oui.", "OUI.")]
    assert found["translatedText"] == plain["translatedText"]
    both = call(app, "POST", "/translate", q=["Oui.", "Un jour."], source="fr", target="en", sentences=True).json()
    assert [len(each) for each in both["sentences"]] == [1, 1]
    assert call(app, "POST", "/translate", q=text, source="fr", target="fr", sentences=True).json()["sentences"] == []
    for wrong in ({"sentences": "maybe"}, {"sentences": True, "format": "html"}):
        assert call(app, "POST", "/translate", q=text, source="fr", target="en", **wrong).status == 400


def test_a_glossary_travels_with_the_request() -> None:
    pool = FakePool()
    app = fake_app(pool)
    terms = [["gare", "depot"], ["train", "railcar", "prefer"]]
    assert call(app, "POST", "/translate", q="La gare.", source="fr", target="en", glossary=terms).status == 200
    assert pool.calls[-1][2].glossary == (("gare", "depot", "must"),)  # of the terms, those that occur
    for wrong in ("gare", [["gare"]], [["gare", 1]], [["gare", "a", "perhaps"]], [["a", "b"]] * 1001, {"gare": "a"}):
        reply = call(app, "POST", "/translate", q="La gare.", source="fr", target="en", glossary=wrong)
        assert reply.status == 400 and "glossary" in reply.json()["error"]


def test_continuations_ask_the_model_of_the_languages() -> None:
    pool = FakePool()
    app = fake_app(pool)
    pair = {"source": "fr", "target": "en"}
    found = call(app, "POST", "/api/continuations", model=pair, text="La gare.", prefix="The", n_best=3).json()
    assert found["request"] == {"text": "La gare.", "prefix": "The", "n_best": 3} and found["model"] == "fr-en"
    assert pool.calls[-1][:2] == ("fr-en", "continuations")
    assert call(app, "POST", "/api/continuations", model="fr-en", text="").status == 400
    assert call(app, "POST", "/api/continuations", model="fr-en", text="a", n_best=33).status == 400
    assert call(app, "POST", "/api/continuations", model={**pair, "target": "zz"}, text="a").status == 404
    steps = Catalogue(ServedModel(f"{a}-{b}", Path("/m"), "translate", a, b) for a, b in (("de", "en"), ("en", "fr")))
    reply = call(fake_app(models=steps), "POST", "/api/continuations", model={"source": "de", "target": "fr"}, text="a")
    assert reply.status == 400 and "directly" in reply.json()["error"]
