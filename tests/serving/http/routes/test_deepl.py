"""DeepL's API, called directly and through its official Python package."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import deepl
import pytest
import uvicorn
from serving.calling import FORM, Reply, call, form
from serving.fakes import FakePool, fake_app

from regard.serving.catalogue import Catalogue, ServedModel
from regard.serving.workers.errors import ServerBusy

FRENCH = "Bonjour tout le monde, je suis étudiant et j'habite à Paris."
ASKED = {"text": ["Bonjour."], "target_lang": "EN", "source_lang": "FR"}


@pytest.fixture(scope="module")
def app() -> Any:
    return fake_app()


def translate(app: Any, **fields: Any) -> Reply:
    given = {name: value for name, value in {**ASKED, **fields}.items() if value is not ...}
    return call(app, "POST", "/v2/translate", **given)


def refused(reply: Reply, message: str, status: int = 400) -> None:
    assert (reply.status, reply.json()) == (status, {"message": message})


# Called directly.


def test_texts_as_json(app: Any) -> None:
    reply = translate(app, text=["Bonjour.", "", "Oui."])
    assert reply.status == 200
    assert reply.json() == {
        "translations": [
            {"detected_source_language": "FR", "text": "BONJOUR."},
            {"detected_source_language": "FR", "text": ""},
            {"detected_source_language": "FR", "text": "OUI."},
        ]
    }


def test_texts_as_a_form(app: Any) -> None:
    body = b"text=Bonjour.&text=Oui.&target_lang=EN&source_lang=FR&show_billed_characters=1"
    reply = call(app, "POST", "/v2/translate", body=body, headers={"Content-Type": FORM})
    assert reply.json() == {
        "translations": [
            {"detected_source_language": "FR", "text": "BONJOUR.", "billed_characters": 8},
            {"detected_source_language": "FR", "text": "OUI.", "billed_characters": 4},
        ]
    }
    assert call(app, "POST", "/v2/translate", **form(text="", target_lang="en")).json()["translations"][0]["text"] == ""
    alone = call(app, "POST", "/v2/translate", **form(text="Bonjour.", target_lang="en", source_lang="fr"))
    assert alone.json() == {"translations": [{"detected_source_language": "FR", "text": "BONJOUR."}]}


@pytest.mark.parametrize(
    "wanted, counted", [(True, True), ("true", True), ("1", True), (False, False), ("0", False), (None, False)]
)
def test_characters_are_counted_when_asked_for(app: Any, wanted: Any, counted: bool) -> None:
    (found,) = translate(app, show_billed_characters=wanted).json()["translations"]
    assert found.get("billed_characters") == (8 if counted else None)


@pytest.mark.parametrize("source", [..., None, ""])
def test_the_source_is_detected(app: Any, source: Any) -> None:
    reply = translate(app, text=[FRENCH], source_lang=source)
    assert reply.json() == {"translations": [{"detected_source_language": "FR", "text": FRENCH.upper()}]}


@pytest.mark.parametrize("code", ["EN", "en", "EN-US", "en-GB", "En-us"])
def test_regions_make_no_difference(app: Any, code: str) -> None:
    assert translate(app, target_lang=code).json()["translations"][0]["text"] == "BONJOUR."


@pytest.mark.parametrize("code", ["PT-BR", "PT-PT", "pt"])
def test_unless_a_model_is_made_for_one(code: str) -> None:
    folder = Path("/srv/models")
    pool = FakePool()
    models = [ServedModel(f"en-{code}", folder / code, "translate", "en", code) for code in ("pb", "pt")]
    reply = translate(fake_app(pool, Catalogue(models)), text=["Hello."], source_lang="EN", target_lang=code)
    assert reply.json()["translations"] == [{"detected_source_language": "EN", "text": "HELLO."}]
    assert pool.calls[0][0] == ("en-pb" if code == "PT-BR" else "en-pt")


@pytest.mark.parametrize("tags", ["html", "xml"])
def test_tags_are_kept(app: Any, tags: str) -> None:
    reply = translate(app, text=['<p id="a">Bonjour.</p>'], tag_handling=tags)
    assert reply.json()["translations"][0]["text"] == '<p id="a">BONJOUR.</p>'


def test_other_options_make_no_difference(app: Any) -> None:
    reply = translate(
        app,
        formality="more",
        split_sentences="nonewlines",
        preserve_formatting=True,
        context="a",
        nonsense=[],
    )
    assert reply.json()["translations"] == [{"detected_source_language": "FR", "text": "BONJOUR."}]


@pytest.mark.parametrize("text", [..., None, []])
def test_a_missing_text(app: Any, text: Any) -> None:
    refused(translate(app, text=text), "Parameter 'text' not specified.")


@pytest.mark.parametrize("text", [5, True, {}, {"a": "b"}, [5], ["a", None], [["a"]]])
def test_S6_texts_of_a_wrong_type(app: Any, text: Any) -> None:
    refused(translate(app, text=text), "Value for 'text' not supported: expected an array of strings.")


@pytest.mark.parametrize("target", [..., None, ""])
def test_a_missing_target(app: Any, target: Any) -> None:
    refused(translate(app, target_lang=target), "Parameter 'target_lang' not specified.")


@pytest.mark.parametrize("field", ["source_lang", "target_lang"])
@pytest.mark.parametrize("value", [5, True, ["EN"], {"a": 1}, 0.5])
def test_S6_languages_of_a_wrong_type(app: Any, field: str, value: Any) -> None:
    refused(translate(app, **{field: value}), f"Value for '{field}' not supported.")


@pytest.mark.parametrize("field", ["source_lang", "target_lang"])
def test_a_language_that_is_not_there(app: Any, field: str) -> None:
    refused(translate(app, **{field: "ZZ"}), "zz is not supported")


@pytest.mark.parametrize("tags", ["json", 5, ["html"], {"a": 1}])
def test_tags_that_are_not_known(app: Any, tags: Any) -> None:
    refused(translate(app, tag_handling=tags), "Value for 'tag_handling' not supported.")


def test_S6_what_exceeds_the_limits_is_refused_before_any_work() -> None:
    pool = FakePool()
    small = fake_app(pool, char_limit=5, batch_limit=1)
    refused(translate(small, text=["abcdef"]), "Too many characters: 6; this server takes 5 in a request.")
    refused(translate(small, text=["a", "b"]), "Too many texts: 2; this server takes 1 in a request.")
    assert pool.calls == []
    assert translate(small, text=["abcde"]).status == 200


@pytest.mark.parametrize("wanted", ["yes", 5, [], [True], {}])
def test_S6_a_count_of_a_wrong_type(app: Any, wanted: Any) -> None:
    refused(translate(app, show_billed_characters=wanted), "Value for 'show_billed_characters' not supported.")


def test_other_refusals_have_the_same_shape(app: Any) -> None:
    busy = translate(fake_app(FakePool(error=ServerBusy(3))))
    assert (busy.status, set(busy.json()), busy.headers["retry-after"]) == (503, {"message"}, "3")
    refused(call(app, "GET", "/v2/translate"), "Method not allowed", 405)
    refused(call(app, "POST", "/v2/rephrase"), "Not found", 404)
    assert set(translate(fake_app(text_limit=20)).json()) == {"message"}


def test_keys() -> None:
    guarded = fake_app(api_keys=("abc",))
    for path in ("/v2/translate", "/v2/languages", "/v2/usage"):
        refused(call(guarded, "POST", path), "Please contact the server operator to get an API key", 403)
        refused(call(guarded, "POST", path, headers={"Authorization": "DeepL-Auth-Key abd"}), "Invalid API key", 403)
    assert call(guarded, "GET", "/v2/usage", headers={"Authorization": "DeepL-Auth-Key abc"}).status == 200


def test_languages(app: Any) -> None:
    sources = [
        {"language": "EN", "name": "English", "supports_formality": False},
        {"language": "FR", "name": "French", "supports_formality": False},
    ]
    assert call(app, "GET", "/v2/languages").json() == sources
    assert call(app, "POST", "/v2/languages", type="source").json() == sources
    targets = call(app, "GET", "/v2/languages", query="type=target").json()
    assert [one["language"] for one in targets] == ["EN-GB", "EN-US", "FR"]
    assert call(app, "GET", "/v2/languages", **form(type="target")).json() == targets
    for kind in ("both", 5, ["source"], None, {}):
        refused(call(app, "POST", "/v2/languages", type=kind), "Value for 'type' not supported.")


def test_only_what_a_model_reads_or_writes_is_listed() -> None:
    one = fake_app(models=Catalogue([ServedModel("fr-en", Path("/srv/models/fr-en"), "translate", "fr", "en")]))
    assert [language["language"] for language in call(one, "GET", "/v2/languages").json()] == ["FR"]
    found = call(one, "GET", "/v2/languages", query="type=target").json()
    assert [language["language"] for language in found] == ["EN-GB", "EN-US"]


def test_what_is_listed_is_understood() -> None:
    folder, pool = Path("/srv/models"), FakePool()
    pairs = [("pb", "zt"), ("zh", "pb"), ("zh", "zt"), ("pb", "pt")]
    app = fake_app(pool, Catalogue([ServedModel(f"{a}-{b}", folder, "translate", a, b) for a, b in pairs]))
    sources = [one["language"] for one in call(app, "GET", "/v2/languages").json()]
    targets = {one["language"]: one["name"] for one in call(app, "GET", "/v2/languages", query="type=target").json()}
    assert sources == ["PT", "ZH"]
    assert list(targets) == ["PT-BR", "PT-PT", "ZH-HANT"] and len(set(targets.values())) == 3
    for source, target, model in (
        ("PT-BR", "ZH-HANT", "pb-zt"),
        ("ZH", "PT-BR", "zh-pb"),
        ("ZH", "ZH-HANT", "zh-zt"),
        ("PT-BR", "PT-PT", "pb-pt"),
    ):
        reply = translate(app, source_lang=source, target_lang=target)
        assert reply.status == 200 and pool.calls[-1][0] == model
        assert reply.json()["translations"][0]["detected_source_language"] == source.partition("-")[0]


@pytest.mark.parametrize("code", ["PT", "PT-BR", "PT-PT", "pt"])
def test_the_only_region_there_is_will_do(code: str) -> None:
    pool = FakePool()
    app = fake_app(pool, Catalogue([ServedModel("pb-en", Path("/srv/models"), "translate", "pb", "en")]))
    assert translate(app, source_lang=code).status == 200 and pool.calls[0][0] == "pb-en"


def test_usage_counts_what_was_translated() -> None:
    fresh = fake_app()
    assert call(fresh, "GET", "/v2/usage").json()["character_count"] == 0
    translate(fresh, text=["Bonjour.", "Oui."])
    translate(fresh, target_lang="ZZ")
    found = call(fresh, "POST", "/v2/usage").json()
    assert found["character_count"] == 12 and found["character_limit"] > 10**9


# Through the official package.


@contextmanager
def listening(app: Any) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as place:
        server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_config=None, access_log=False))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [place]}, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield f"http://127.0.0.1:{place.getsockname()[1]}"
        server.should_exit = True
        thread.join(10)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with listening(fake_app(api_keys=("abc",))) as address:
        yield address


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")


@pytest.fixture
def client(url: str) -> Iterator[deepl.DeepLClient]:
    with closing(deepl.DeepLClient("abc", server_url=url)) as found:
        yield found


def test_the_package_translates_a_text(client: deepl.DeepLClient) -> None:
    found = client.translate_text("Bonjour l'été. 🙂", source_lang="FR", target_lang="EN-US")
    assert (found.text, found.detected_source_lang, found.billed_characters) == ("BONJOUR L'ÉTÉ. 🙂", "FR", 16)


def test_the_package_translates_a_list(client: deepl.DeepLClient) -> None:
    texts = [FRENCH, "Oui."]
    found = client.translate_text(texts, target_lang="EN-GB", formality="prefer_more", split_sentences="0")
    assert [one.text for one in found] == [text.upper() for text in texts]
    assert {one.detected_source_lang for one in found} == {"FR"}


def test_the_package_translates_html(client: deepl.DeepLClient) -> None:
    found = client.translate_text("<i>Oui.</i>", source_lang="FR", target_lang="EN-US", tag_handling="html")
    assert found.text == "<i>OUI.</i>"


def test_the_package_lists_languages_that_it_can_use(client: deepl.DeepLClient) -> None:
    sources, targets = client.get_source_languages(), client.get_target_languages()
    assert {(one.code, one.name) for one in sources} == {("EN", "English"), ("FR", "French")}
    assert not any(one.supports_formality for one in targets)
    for target in targets:
        source = "EN" if target.code == "FR" else "FR"
        assert client.translate_text("a", source_lang=source, target_lang=target).text == "A"


def test_the_package_sees_the_usage(client: deepl.DeepLClient) -> None:
    before = client.get_usage().character
    client.translate_text("Bonjour.", source_lang="FR", target_lang="EN-US")
    after = client.get_usage().character
    assert after.valid and not after.limit_reached and after.count == before.count + 8


def test_the_package_hears_why_it_is_refused(client: deepl.DeepLClient, url: str) -> None:
    with pytest.raises(deepl.DeepLException, match="zz is not supported") as refusal:
        client.translate_text("Bonjour.", target_lang="ZZ")
    assert refusal.value.http_status_code == 400 and type(refusal.value) is deepl.DeepLException
    with closing(deepl.DeepLClient("wrong", server_url=url)) as other, pytest.raises(deepl.AuthorizationException):
        other.translate_text("Bonjour.", target_lang="EN-US")
