"""LibreTranslate's API: response shapes, statuses and exact messages, and the cases of its own tests."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from serving.calling import Reply, call, form
from serving.fakes import FakePool, catalogue, fake_app

from regard.serving.catalogue import Catalogue, ServedModel
from regard.serving.http.app import make_app
from regard.serving.http.documents import FILE_FORMATS
from regard.serving.settings import Settings

FRENCH = "Bonjour tout le monde, je suis étudiant et j'habite à Paris."
ENGLISH = "I am a student and I live in a small house in the country."
ASKED = {"q": "Bonjour.", "source": "fr", "target": "en"}


@pytest.fixture(scope="module")
def app() -> Any:
    return fake_app()


def translate(app: Any, **fields: Any) -> Reply:
    """JSON; a field that is `...` is left out."""
    given = {name: value for name, value in {**ASKED, **fields}.items() if value is not ...}
    return call(app, "POST", "/translate", **given) if given else call(app, "POST", "/translate")


def refused(reply: Reply, message: str, status: int = 400) -> None:
    assert (reply.status, reply.json()) == (status, {"error": message})
    assert reply.headers["content-type"] == "application/json"


def test_doubt_says_it_of_each_word_in_the_whole_text(app: Any) -> None:
    text = "Oui.\n\nEn 2019 👍 !"
    found = translate(app, q=text, doubt=True).json()
    shown = found["translatedText"]
    assert set(found) == {"translatedText", "doubt"} and found["doubt"]["warnings"] == []
    words = [(shown[one["start"] : one["end"]], one["confidence"]) for one in found["doubt"]["words"]]
    assert [word for word, _ in words] == ["OUI", "EN", "2019"] and words[0][1] == 0.25
    assert found["doubt"]["confidence"] == min(confidence for _, confidence in words)


def test_doubt_of_several_texts_and_of_what_is_not_translated(app: Any) -> None:
    found = translate(app, q=["Oui.", "42"], doubt="true").json()
    assert [one["confidence"] for one in found["doubt"]] == [0.25, None]
    nothing = {"confidence": None, "words": [], "warnings": []}
    assert translate(app, source="en", doubt=True).json() == {"translatedText": "Bonjour.", "doubt": nothing}
    assert "doubt" not in translate(app, doubt=False).json()


def test_doubt_warns(app: Any) -> None:
    found = translate(app, q="Il est parti de la maison sans rien dire hier.", doubt=True).json()
    assert "copied" in [one["check"] for one in found["doubt"]["warnings"]]


def test_doubt_in_html_is_spans(app: Any) -> None:
    found = translate(app, q='<p id="un">Un <b>chat &amp; un</b> chien.</p>Oui', doubt=True, format="html").json()
    shown = found["translatedText"]
    one, two = ('<span class="doubtful" title="confidence ' + value + '">' for value in ("0.05", "0.33"))
    assert re.sub(r"</?span[^>]*>", "", shown) == '<p id="un">UN <b>CHAT &amp; UN</b> CHIEN.</p>OUI'
    assert (
        f'<p id="un">{one}UN</span> <b>{one}CHAT</span> &amp; {one}UN</span></b>' in shown
        and f"{two}OUI</span>" in shown
    )
    assert found["doubt"] == {
        "confidence": pytest.approx(1 / 19, abs=1e-4),
        "words": [],
        "warnings": found["doubt"]["warnings"],
    }
    private = "<p>Un \U00100000 chat</p>"
    assert translate(app, q=private, doubt=True, format="html").json()["translatedText"] == private.upper().replace(
        "P>", "p>"
    )


# One text or several, in every encoding.


def test_one_text_as_json(app: Any) -> None:
    reply = translate(app)
    assert (reply.status, reply.json()) == (200, {"translatedText": "BONJOUR."})


def test_one_text_as_a_form(app: Any) -> None:
    reply = call(app, "POST", "/translate", **form(**ASKED))
    assert (reply.status, reply.json()) == (200, {"translatedText": "BONJOUR."})


def test_one_text_as_a_form_in_parts(app: Any) -> None:
    parts = [f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{ASKED[name]}\r\n' for name in ASKED]
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    reply = call(app, "POST", "/translate", body=("".join(parts) + "--b--\r\n").encode(), headers=headers)
    assert (reply.status, reply.json()) == (200, {"translatedText": "BONJOUR."})


def test_one_text_in_the_address(app: Any) -> None:
    reply = call(app, "POST", "/translate", query="q=Bonjour%20l%27%C3%A9t%C3%A9.&source=fr&target=en&api_key=x")
    assert (reply.status, reply.json()) == (200, {"translatedText": "BONJOUR L'ÉTÉ."})


def test_several_texts(app: Any) -> None:
    reply = translate(app, q=["Bonjour.", "", "Où est la gare ?"])
    assert (reply.status, reply.json()) == (200, {"translatedText": ["BONJOUR.", "", "OÙ EST LA GARE ?"]})
    assert translate(app, q=["Bonjour."]).json() == {"translatedText": ["BONJOUR."]}


def test_unknown_fields_make_no_difference(app: Any) -> None:
    assert translate(app, secret="s", api_key="k", apiKey="k", beam=[{}], nonsense=None).status == 200


def test_line_breaks_stay(app: Any) -> None:
    text = "  Bonjour.\r\n\r\n\tOui.\n\n- un\n- deux\n"
    assert translate(app, q=text).json() == {"translatedText": text.upper()}
    assert call(app, "POST", "/translate", **form(**{**ASKED, "q": text})).json() == {"translatedText": text.upper()}


@pytest.mark.parametrize("text", ["🙂", "🎉🎉 👩‍👩‍👧", "   ", "\n", "..."])
def test_a_text_without_words_comes_back_unchanged(text: str) -> None:
    pool = FakePool()
    assert translate(fake_app(pool), q=text).json() == {"translatedText": text}
    assert pool.calls == []


@pytest.mark.parametrize("code", ["fr", "FR"])
def test_into_the_same_language_nothing_changes(code: str) -> None:
    pool = FakePool()
    assert translate(fake_app(pool), source=code, target="fr").json() == {"translatedText": "Bonjour."}
    assert pool.calls == []


def test_codes_are_read_in_either_case(app: Any) -> None:
    assert translate(app, source="Fr", target="EN").json() == {"translatedText": "BONJOUR."}


@pytest.mark.parametrize("format", ["text", "", None])
def test_text_is_the_usual_format(app: Any, format: Any) -> None:
    assert translate(app, format=format).json() == {"translatedText": "BONJOUR."}


def test_html_keeps_tags_and_attributes(app: Any) -> None:
    page = '<p class="a">Bonjour.</p><a href="http://example.org/a?b=c">Oui.</a>'
    reply = translate(app, q=page, format="html")
    wanted = '<p class="a">BONJOUR.</p><a href="http://example.org/a?b=c">OUI.</a>'
    assert (reply.status, reply.json()) == (200, {"translatedText": wanted})


# Detection and alternatives.


def test_auto_tells_what_was_detected(app: Any) -> None:
    found = translate(app, q=FRENCH, source="auto").json()
    assert set(found) == {"translatedText", "detectedLanguage"}
    assert found["translatedText"] == FRENCH.upper()
    assert found["detectedLanguage"]["language"] == "fr" and 50 < found["detectedLanguage"]["confidence"] <= 100
    assert isinstance(found["detectedLanguage"]["confidence"], float)
    into_french = translate(app, q=ENGLISH, source="AUTO", target="fr").json()
    assert into_french["detectedLanguage"]["language"] == "en" and into_french["translatedText"] == ENGLISH.upper()


def test_auto_tells_it_once_for_each_of_several_texts(app: Any) -> None:
    found = translate(app, q=[FRENCH, "Oui."], source="auto").json()
    first, second = found["detectedLanguage"]
    assert first == second and first["language"] == "fr" and set(first) == {"confidence", "language"}


def test_alternatives(app: Any) -> None:
    assert translate(app, alternatives=2).json() == {
        "translatedText": "BONJOUR.",
        "alternatives": ["BONJOUR. (1)", "BONJOUR. (2)"],
    }
    both = translate(app, q=["Bonjour.", "Oui."], alternatives=1).json()
    assert both["alternatives"] == [["BONJOUR. (1)"], ["OUI. (1)"]]


@pytest.mark.parametrize("wanted", ["2", "+2", "02"])
def test_alternatives_as_forms_have_them(app: Any, wanted: str) -> None:
    assert len(call(app, "POST", "/translate", **form(**ASKED, alternatives=wanted)).json()["alternatives"]) == 2


@pytest.mark.parametrize("wanted", [0, -1, -(10**9), "0", "-3", ...])
def test_no_alternatives(app: Any, wanted: Any) -> None:
    assert translate(app, alternatives=wanted).json() == {"translatedText": "BONJOUR."}


def test_html_has_no_alternatives(app: Any) -> None:
    page = "<b>Bonjour.</b>"
    found = translate(app, q=page, format="html", alternatives=2).json()
    assert found == {"translatedText": "<b>BONJOUR.</b>", "alternatives": []}
    assert translate(app, q=[page, page], format="html", alternatives=2).json()["alternatives"] == [[], []]


# Errors, with its messages.


@pytest.mark.parametrize("field", ["q", "source", "target"])
@pytest.mark.parametrize("value", [..., "", None])
def test_a_missing_field(app: Any, field: str, value: Any) -> None:
    refused(translate(app, **{field: value}), f"Invalid request: missing {field} parameter")


def test_the_first_mistake_is_told(app: Any) -> None:
    """In this order: fields that are missing, format, alternatives, limits, languages."""
    wrong: dict[str, Any] = {"q": [], "source": "", "target": "", "format": "xml", "alternatives": "x"}
    small = fake_app(batch_limit=1, char_limit=3)
    for field, right, message in (
        ("q", ["a", "bcd"], "Invalid request: missing q parameter"),
        ("source", "xx", "Invalid request: missing source parameter"),
        ("target", "yy", "Invalid request: missing target parameter"),
        ("format", "html", "xml format is not supported"),
        ("alternatives", 1, "Invalid request: alternatives parameter is not a number"),
        ("q", ["abcd"], "Invalid request: request (2) exceeds text limit (1)"),
        ("q", ["abc"], "Invalid request: request (4) exceeds text limit (3)"),
        ("source", "fr", "xx is not supported"),
        ("target", "en", "yy is not supported"),
    ):
        refused(translate(small, **wrong), message)
        wrong[field] = right
    assert translate(small, **wrong).status == 200


def test_an_empty_array_is_missing(app: Any) -> None:
    refused(translate(app, q=[]), "Invalid request: missing q parameter")


def test_nothing_at_all(app: Any) -> None:
    refused(call(app, "POST", "/translate"), "Invalid request: missing q parameter")
    refused(call(app, "POST", "/translate", query="q=a"), "Invalid request: missing source parameter")


@pytest.mark.parametrize("q", [5, 5.5, True, False, 0, {}, {"a": "b"}, [1], ["a", None], [["a"]], [[]], ["a", {}]])
def test_S6_texts_of_a_wrong_type(app: Any, q: Any) -> None:
    refused(translate(app, q=q), "Invalid request: q parameter is neither a string nor an array of strings")


@pytest.mark.parametrize("field", ["source", "target"])
@pytest.mark.parametrize("value", [5, 0, True, ["fr"], [], {"a": 1}, 1.5])
def test_S6_languages_of_a_wrong_type(app: Any, field: str, value: Any) -> None:
    refused(translate(app, **{field: value}), f"Invalid request: {field} parameter is not a string")


@pytest.mark.parametrize(
    "wanted", ["x", "", " 1", "1.0", "1e3", "1_0", "١", True, False, None, 1.0, 1.5, [], [1], {}, "9" * 5000]
)
def test_S6_alternatives_that_are_not_a_number(app: Any, wanted: Any) -> None:
    refused(translate(app, alternatives=wanted), "Invalid request: alternatives parameter is not a number")


def test_alternatives_that_are_not_a_number_in_a_form(app: Any) -> None:
    reply = call(app, "POST", "/translate", **form(**ASKED, alternatives="x"))
    refused(reply, "Invalid request: alternatives parameter is not a number")


@pytest.mark.parametrize("wanted", [2, 10**9, 2**62, "2"])
def test_S6_too_many_alternatives(wanted: Any) -> None:
    pool = FakePool()
    small = fake_app(pool, alternatives_limit=1)
    refused(translate(small, alternatives=wanted), "Invalid request: alternatives parameter must be <= 1")
    assert pool.calls == []
    assert translate(small, alternatives=1).status == 200
    endless = fake_app(pool, alternatives_limit=-1)
    assert translate(endless, alternatives=10**9).status == 400
    assert len(translate(endless, alternatives=50).json()["alternatives"]) == 50


def test_S6_what_exceeds_the_limits_is_refused_before_any_work() -> None:
    pool = FakePool()
    small = fake_app(pool, char_limit=5, batch_limit=1)
    refused(translate(small, q="Bonjour ici"), "Invalid request: request (11) exceeds text limit (5)")
    refused(translate(small, q=["a", "b"]), "Invalid request: request (2) exceeds text limit (1)")
    refused(
        translate(fake_app(pool, char_limit=5), q=["abc", "def"]), "Invalid request: request (6) exceeds text limit (5)"
    )
    refused(call(small, "POST", "/detect", q="Bonjour"), "Invalid request: request (7) exceeds text limit (5)")
    assert pool.calls == []
    assert translate(small, q="abcde").status == translate(small, q=["abcde"]).status == 200
    assert translate(fake_app(char_limit=-1, batch_limit=-1), q=["a"] * 2000).status == 200


@pytest.mark.parametrize("format", ["xml", "HTML", "5", 5, 0, True, False, ["html"], [], {}])
def test_a_format_that_is_not_there(app: Any, format: Any) -> None:
    refused(translate(app, format=format), f"{format} format is not supported")


@pytest.mark.parametrize("fields", [{"source": "zz"}, {"target": "zz"}, {"source": "zz", "target": "zz"}])
def test_a_language_that_is_not_there(app: Any, fields: dict[str, str]) -> None:
    refused(translate(app, **fields), "zz is not supported")


def test_auto_is_no_target(app: Any) -> None:
    refused(translate(app, target="auto"), "auto is not supported")


def test_a_pair_that_is_not_there() -> None:
    folder = Path("/srv/models")
    models = Catalogue(
        [
            ServedModel("a", folder / "a", "translate", "de", "en"),
            ServedModel("b", folder / "b", "translate", "en", "es"),
        ]
    )
    reply = translate(fake_app(models=models), source="es", target="de")
    refused(reply, "German (de) is not available as a target language from Spanish (es)")


def test_S6_a_long_code_is_not_sent_back_whole(app: Any) -> None:
    reply = translate(app, source="z" * 50_000)
    assert reply.status == 400 and len(reply.body) < 1000


@pytest.mark.parametrize("body", [b"[]", b'"q"', b"5", b"null", b'[{"q": "a"}]'])
def test_json_that_is_no_object(app: Any, body: bytes) -> None:
    refused(
        call(app, "POST", "/translate", body=body, headers={"Content-Type": "application/json"}), "Invalid JSON format"
    )


def test_json_that_is_malformed(app: Any) -> None:
    reply = call(app, "POST", "/translate", body=b'{"q": ', headers={"Content-Type": "application/json"})
    assert reply.status == 400 and set(reply.json()) == {"error"}


def test_a_body_that_is_too_large(app: Any) -> None:
    reply = translate(fake_app(text_limit=100), q="a" * 200)
    assert reply.status == 413 and set(reply.json()) == {"error"}


@pytest.mark.parametrize(
    "method, path",
    [("GET", "/translate"), ("GET", "/detect"), ("POST", "/languages"), ("POST", "/health"), ("POST", "/spec"), ("GET", "/suggest"), ("PUT", "/translate")],
)  # fmt: skip
def test_a_wrong_method(app: Any, method: str, path: str) -> None:
    refused(call(app, method, path), "Method not allowed", 405)


def test_what_is_disabled(app: Any) -> None:
    refused(
        call(app, "POST", "/suggest", q="a", s="b", source="fr", target="en"),
        "Suggestions are disabled on this server.",
        403,
    )


def test_keys_are_told_apart_for_what_is_kept() -> None:
    pool = FakePool()
    guarded = fake_app(pool, api_keys=("one", "two"))
    for key in ("one", "two", "one"):
        assert translate(guarded, api_key=key).status == 200
    first, second, third = pool.owners
    assert first == third and first != second and "" not in pool.owners
    refused(translate(guarded), "Please contact the server operator to get an API key")
    refused(translate(guarded, api_key="three"), "Invalid API key", 403)


# Detection, and information about the server.


def test_detect(app: Any) -> None:
    for reply in (call(app, "POST", "/detect", q=FRENCH), call(app, "POST", "/detect", **form(q=FRENCH))):
        found = reply.json()
        assert reply.status == 200 and 1 <= len(found) <= 3
        assert all(set(one) == {"confidence", "language"} and 0 <= one["confidence"] <= 100 for one in found)
        assert found[0]["language"] == "fr"
        assert [one["confidence"] for one in found] == sorted((one["confidence"] for one in found), reverse=True)


def test_detect_without_a_clue(app: Any) -> None:
    assert call(app, "POST", "/detect", q="🙂").json() == [{"confidence": 0.0, "language": "en"}]


@pytest.mark.parametrize("q", [..., "", None])
def test_detect_without_a_text(app: Any, q: Any) -> None:
    given = {} if q is ... else {"q": q}
    refused(call(app, "POST", "/detect", format="text", **given), "Invalid request: missing q parameter")


@pytest.mark.parametrize("q", [5, 0, True, ["a"], [], {"a": 1}])
def test_S6_detect_of_a_wrong_type(app: Any, q: Any) -> None:
    refused(call(app, "POST", "/detect", q=q), "Invalid request: q parameter is not a string")


def test_languages(app: Any) -> None:
    reply = call(app, "GET", "/languages")
    assert (reply.status, reply.json()) == (
        200,
        [
            {"code": "en", "name": "English", "targets": ["en", "fr"]},
            {"code": "fr", "name": "French", "targets": ["en", "fr"]},
        ],
    )


def test_codes_go_out_as_the_public_knows_them() -> None:
    """Every name of a language is accepted."""
    folder = Path("/srv/models")
    pairs = [("zh", "en"), ("en", "pb")]
    chinese = fake_app(models=Catalogue([ServedModel(a, folder / a, "translate", a, b) for a, b in pairs]))
    found = {language["code"]: language for language in call(chinese, "GET", "/languages").json()}
    assert set(found) == {"en", "pt-BR", "zh-Hans"}
    assert found["zh-Hans"]["targets"] == ["en", "pt-BR", "zh-Hans"] and found["zh-Hans"]["name"].startswith("Chinese")
    for code in ("zh", "zh-Hans", "ZH-HANS"):
        assert translate(chinese, q="Bonjour.", source=code).json() == {"translatedText": "BONJOUR."}
    for code in ("pb", "pt-BR", "pt-br"):
        assert translate(chinese, q="Hello.", source="en", target=code).json() == {"translatedText": "HELLO."}
    reply = translate(chinese, source="pb", target="zh")
    assert (
        reply.status == 400
        and "(zh-Hans) is not available" in reply.json()["error"]
        and "(pt-BR)" in reply.json()["error"]
    )


def test_health(app: Any) -> None:
    reply = call(app, "GET", "/health")
    assert (reply.status, json.loads(reply.body)) == (200, {"status": "ok"})


@pytest.mark.parametrize("stalled, status", [(True, "stalled"), (False, "starting")])
def test_health_without_a_worker_that_responds(stalled: bool, status: str) -> None:
    pool = FakePool()
    pool.ready, pool.stalled = False, stalled
    reply = call(make_app(Settings(log=False), catalogue(), pool), "GET", "/health")
    assert (reply.status, json.loads(reply.body)) == (503, {"status": status})


def test_frontend_settings(app: Any) -> None:
    reply = call(app, "GET", "/frontend/settings")
    assert (reply.status, reply.json()) == (
        200,
        {
            "charLimit": 100_000,
            "frontendTimeout": 500,
            "apiKeys": False,
            "keyRequired": False,
            "suggestions": False,
            "filesTranslation": True,
            "supportedFilesFormat": FILE_FORMATS,
            "language": {
                "source": {"code": "auto", "name": "Auto Detect"},
                "target": {"code": "en", "name": "English"},
            },
        },
    )
    other = call(fake_app(char_limit=-1, api_keys=("k",)), "GET", "/frontend/settings").json()
    assert (other["charLimit"], other["apiKeys"], other["keyRequired"]) == (-1, True, True)
