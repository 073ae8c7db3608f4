"""DeepL's glossary API, and glossaries in requests of our own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deepl
import pytest
from serving.calling import Reply, call
from serving.fakes import FakePool, fake_app
from serving.http.routes.test_deepl import listening

ANIMALS = {"name": "Animals", "source_lang": "fr", "target_lang": "en", "entries": "chien\thound\nété\tsummer\tprefer"}
ROWS = (("chien", "hound", "must"),)


@pytest.fixture
def pool() -> FakePool:
    return FakePool()


@pytest.fixture
def app(pool: FakePool, tmp_path: Path) -> Any:
    return fake_app(pool, state=str(tmp_path / "state"), api_keys=("one", "other"))


def ask(app: Any, method: str, path: str, key: str = "one", **fields: Any) -> Reply:
    return call(app, method, path, headers={"Authorization": f"DeepL-Auth-Key {key}"}, **fields)


def created(app: Any, **changed: Any) -> str:
    reply = ask(app, "POST", "/v2/glossaries", **{**ANIMALS, **changed})
    assert reply.status == 201, reply.json()
    return reply.json()["glossary_id"]


def test_the_official_client(pool: FakePool, tmp_path: Path) -> None:
    with listening(fake_app(pool, state=str(tmp_path / "state"))) as url:
        client = deepl.Translator("key", server_url=url)
        made = client.create_glossary("Animals", source_lang="FR", target_lang="EN", entries={"chien": "hound"})
        assert (made.name, made.entry_count, made.ready) == ("Animals", 1, True)
        assert [one.glossary_id for one in client.list_glossaries()] == [made.glossary_id]
        assert client.get_glossary_entries(made) == {"chien": "hound"}
        found = client.translate_text("Le chien.", source_lang="FR", target_lang="EN-US", glossary=made)
        assert found.text == "LE CHIEN." and pool.calls[-1][2].glossary == ROWS  # type: ignore[union-attr]
        from_csv = client.create_glossary_from_csv("b", source_lang="FR", target_lang="EN", csv_data='"a, b",c\n')
        assert client.get_glossary_entries(from_csv) == {"a, b": "c"}
        client.delete_glossary(made)
        with pytest.raises(deepl.exceptions.GlossaryNotFoundException):
            client.get_glossary(made)
        assert any(pair.source_lang == "fr" for pair in client.get_glossary_languages())


def test_a_glossary_belongs_to_its_key(app: Any) -> None:
    id = created(app)
    assert ask(app, "GET", f"/v2/glossaries/{id}").json()["entry_count"] == 2
    reply = ask(app, "GET", f"/v2/glossaries/{id}/entries")
    assert reply.body.decode() == ANIMALS["entries"]
    for method, path in (("GET", ""), ("GET", "/entries"), ("DELETE", "")):
        assert ask(app, method, f"/v2/glossaries/{id}{path}", key="other").status == 404
    assert ask(app, "GET", "/v2/glossaries", key="other").json() == {"glossaries": []}
    asked = {"text": ["Le chien."], "source_lang": "FR", "target_lang": "EN", "glossary_id": id}
    assert ask(app, "POST", "/v2/translate", key="other", **asked).status == 404
    assert ask(app, "DELETE", f"/v2/glossaries/{id}").status == 204
    assert ask(app, "GET", f"/v2/glossaries/{id}").status == 404


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"name": ""}, "Parameter 'name' not specified."),
        ({"entries": 5}, "Parameter 'entries' not specified."),
        ({"source_lang": "zz"}, "Value for 'source_lang' not supported."),
        ({"target_lang": "fr"}, "Unsupported glossary source and target language pair."),
        ({"entries_format": "xls"}, "Value for 'entries_format' not supported."),
        ({"entries": "chien"}, "Invalid glossary entries provided: entries, entry 1: has 1 columns"),
    ],
)
def test_what_is_wrong_is_said(app: Any, changed: dict[str, Any], message: str) -> None:
    reply = ask(app, "POST", "/v2/glossaries", **{**ANIMALS, **changed})
    assert reply.status == 400 and reply.json()["message"].startswith(message)


def test_a_translation_needs_the_languages_of_the_glossary(app: Any) -> None:
    id = created(app)
    for languages, message in (
        ({"target_lang": "EN"}, "Value for 'source_lang' required"),
        ({"source_lang": "EN", "target_lang": "FR"}, "The languages of the glossary are not"),
    ):
        reply = ask(app, "POST", "/v2/translate", text=["Le chien."], glossary_id=id, **languages)
        assert reply.status == 400 and reply.json()["message"].startswith(message)


def test_a_key_has_so_many_glossaries_at_most(app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.serving.http.routes.glossaries.MOST_GLOSSARIES", 1)
    created(app)
    assert ask(app, "POST", "/v2/glossaries", **ANIMALS).status == 456


def test_without_a_store_there_are_none() -> None:
    reply = call(fake_app(), "POST", "/v2/glossaries", **ANIMALS)
    assert reply.status == 403 and "--state" in reply.json()["message"]


def test_our_own_api_takes_a_glossary_with_a_request(app: Any, pool: FakePool) -> None:
    asked: dict[str, Any] = {"text": ["Le chien.", "Oui."], "model": "fr-en"}
    rows = [["chien", "hound"], ["chat", "tomcat", "prefer"]]
    assert ask(app, "POST", "/api/translate", **asked, glossary=rows).status == 200
    assert pool.calls[-1][2].glossary == ROWS, "only what occurs is sent to a worker"
    reply = ask(app, "POST", "/api/translate", **asked, glossary=[["chien", " "]])
    assert (reply.status, reply.json()) == (400, {"error": "glossary, entry 1: the translation is empty"})
    assert ask(app, "POST", "/api/translate", **asked, glossary=[["chien"]]).status == 400
