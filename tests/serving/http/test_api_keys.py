"""API keys: every way to send one, and requests without."""

from __future__ import annotations

import asyncio
import hmac
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from serving.calling import call, form, guarded
from serving.fakes import FakePool, catalogue

from regard.serving.http.api_keys import PUBLIC_PATHS, ApiKeys, is_public
from regard.serving.http.app import make_app
from regard.serving.settings import Settings

KEYS = ("right-Key-1", "clé")
CONTACT = "Please contact the server operator to get an API key"


def bearer(key: str, scheme: str = "Bearer") -> dict[str, Any]:
    return {"headers": {"Authorization": f"{scheme} {key}"}}


WAYS = {
    "json": lambda key: {"api_key": key},
    "form": lambda key: form(api_key=key, q="a"),
    "query": lambda key: {"query": f"api_key={key}"},
    "bearer": bearer,
    "bearer in lower case": lambda key: bearer(key, "bearer"),
    "deepl": lambda key: bearer(key, "DeepL-Auth-Key"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("path", ["/fields", "/v2/fields", "/api/fields"])
def test_S12_a_key_may_come_in_every_way_that_clients_know(way: str, path: str) -> None:
    app = guarded(api_keys=KEYS)
    assert call(app, "POST", path, **WAYS[way]("right-Key-1")).status == 200
    for wrong in ("right-key-1", "RIGHT-KEY-1", "right-Key-", "right-Key-11", "x", " "):
        reply = call(app, "POST", path, **WAYS[way](wrong))
        if way != "form" and not wrong.strip():
            continue  # white space alone is no key in a header
        assert (reply.status, *reply.json().values()) == (403, "Invalid API key")


def test_S12_without_a_key_each_contract_says_so_in_its_own_way() -> None:
    app = guarded(api_keys=KEYS)
    libre, deepl, ours = (call(app, "POST", path, q="a") for path in ("/fields", "/v2/fields", "/api/fields"))
    assert (libre.status, libre.json()) == (400, {"error": CONTACT})
    assert (deepl.status, deepl.json()) == (403, {"message": CONTACT})
    assert (ours.status, ours.json(), ours.headers["www-authenticate"]) == (401, {"error": CONTACT}, "Bearer")
    linked = guarded(api_keys=KEYS, key_link="https://keys.example")
    assert call(linked, "POST", "/fields").json() == {"error": "Visit https://keys.example to get an API key"}
    for nothing in (None, ""):
        assert call(app, "POST", "/fields", api_key=nothing).json() == {"error": CONTACT}


@pytest.mark.parametrize("key", [1, 1.5, True, ["right-Key-1"], {"right-Key-1": 1}, "x" * 100_000])
def test_S12_a_key_of_another_type_is_a_wrong_one(key: Any) -> None:
    assert call(guarded(api_keys=KEYS), "POST", "/fields", api_key=key).status == 403


def test_S12_keys_may_be_in_any_alphabet() -> None:
    app = guarded(api_keys=KEYS)
    assert call(app, "POST", "/fields", api_key="clé").status == 200
    assert call(app, "POST", "/fields", **bearer("clé".encode().decode("latin-1"))).status == 200


def test_S12_where_no_key_is_needed_any_is_ignored() -> None:
    assert call(guarded(), "POST", "/fields", query="api_key=whatever").status == 200
    assert call(guarded(), "POST", "/fields", **bearer("whatever")).status == 200


def whole_app() -> FastAPI:
    return make_app(Settings(api_keys=KEYS, metrics=True), catalogue(), FakePool(), log_requests=False)  # type: ignore[arg-type]


def closed_routes() -> list[tuple[str, str]]:
    found = whole_app().routes
    assert all(isinstance(route, APIRoute) for route in found), "a route that this test does not understand"
    closed = [route for route in found if not is_public(route.path)]  # type: ignore[attr-defined]
    return [(method, route.path) for route in closed for method in route.methods]  # type: ignore[attr-defined]


@pytest.mark.parametrize("method, path", closed_routes())
def test_S12_every_route_wants_a_key_unless_it_is_listed_as_open(method: str, path: str) -> None:
    reply = call(whole_app(), method, path.replace("{", "").replace("}", ""))
    assert reply.status in (400, 401, 403)
    assert CONTACT in reply.json().values()


def test_S12_what_is_open_computes_nothing() -> None:
    pool = FakePool()
    app = make_app(Settings(api_keys=KEYS, metrics=True), catalogue(), pool, log_requests=False)  # type: ignore[arg-type]
    templates = {route.path for route in app.routes}  # type: ignore[attr-defined]
    for path in sorted(PUBLIC_PATHS):
        assert path in templates, f"{path} is open but is no route"
        assert call(app, "GET", path).status == 200, path
        assert call(app, "POST", path, q="a", source="fr", target="en").status == 405, path
    assert not pool.calls


@pytest.mark.parametrize(
    "path", ["/nothing", "/health/", "/HEALTH", "//health", "/health/../translate", "/translate/", "/languages%2f"]
)
def test_S12_a_path_that_only_looks_open_is_closed(path: str) -> None:
    assert call(guarded(api_keys=KEYS), "POST", path).json() == {"error": CONTACT}


def test_S12_a_large_body_is_not_read_for_somebody_without_a_key() -> None:
    async def never() -> Any:
        nonlocal read
        read += 1
        return {"type": "http.request", "body": b"x", "more_body": False}

    read = 0
    picture = {"Content-Type": "image/png", "Content-Length": "1000000"}
    assert call(guarded(api_keys=KEYS), "POST", "/raw", receive=never, headers=picture).status == 400
    assert read == 1, "only while it is thrown away"
    assert (
        call(
            guarded(api_keys=KEYS),
            "POST",
            "/raw",
            query="api_key=right-Key-1",
            body=b"xy",
            headers={"Content-Type": "image/png"},
        ).status
        == 200
    )


def test_S12_keys_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def seen(a: bytes, b: bytes) -> bool:
        compared.append((a, b))
        return a == b

    monkeypatch.setattr(hmac, "compare_digest", seen)
    keys = ApiKeys(Settings(api_keys=("a", "b", "c")))
    known = [asyncio.run(keys.status("/translate", key)).known for key in ("a", "c", "d", "", None)]
    assert known == [True, True, False, False, False]
    assert len(compared) == 15, "with all keys, whichever fits"
    assert {len(side) for pair in compared for side in pair} == {64}, "of equal length, whatever is given"


def test_S12_a_key_is_in_no_log_no_metric_and_no_answer(capsys: pytest.CaptureFixture[str]) -> None:
    app = guarded(api_keys=KEYS, metrics=True, log_requests=True)
    for way in WAYS.values():
        for key in ("right-Key-1", "wrong-Key-2"):
            for path in ("/fields", "/v2/fields", "/nothing", "/right-Key-1"):
                reply = call(app, "POST", path, **way(key))
                shown = (
                    reply.body if path not in ("/fields", "/v2/fields") or reply.status != 200 else b""
                )  # these echo
                assert b"Key-" not in shown + repr(reply.headers).encode()
    assert b"Key-" not in call(app, "GET", "/metrics").body
    said = capsys.readouterr()
    assert "Key-" not in said.err + said.out and said.err.count("\n") == 49


def test_S18_a_route_knows_whose_request_it_is_but_not_the_key() -> None:
    pool = FakePool()
    app = guarded(pool, api_keys=KEYS)
    for key in ("right-Key-1", "clé", "right-Key-1"):
        call(app, "POST", "/translate", q="a", api_key=key)
    first, second, third = pool.owners
    assert first == third != second and first and second
    assert not {"right-Key-1", "clé"} & {first, second}
    call(guarded(pool), "POST", "/translate", q="a", api_key="right-Key-1")
    assert pool.owners[-1] == ""
