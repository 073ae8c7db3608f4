"""Access control: host names, origins, security headers, and requests during shutdown."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from serving.calling import HOST, call, guarded

from regard.errors import UserError
from regard.serving.http.access import warning
from regard.serving.http.allowed_hosts import is_loopback
from regard.serving.settings import Settings

SITE = "https://reader.example"


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:5000", "LOCALHOST.:81", "127.0.0.1:1", "[::1]", "[::1]:5000", "[0:0::1]"]
)
def test_S11_a_loopback_server_answers_to_its_own_names(host: str) -> None:
    assert call(guarded(), "GET", "/health", host=host).status == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:5000", "127.0.0.1.evil.example", "localhost.evil.example", "0.0.0.0", "[::2]", "127.0.0.2", "10.0.0.1:5000"])  # fmt: skip
@pytest.mark.parametrize("path", ["/health", "/translate", "/nothing"])
def test_S11_a_foreign_host_is_refused_on_a_loopback_address(host: str, path: str) -> None:
    reply = call(guarded(), "GET", path, host=host)
    assert (reply.status, reply.json()) == (403, {"error": "This server does not answer to that host name"})


@pytest.mark.parametrize("host", [None, "", " ", "local host", "localhost:", "localhost:x", "local/host", "user@localhost", "[::1", "::1", "h\xf6st", "a" * 300])  # fmt: skip
def test_S11_a_missing_or_malformed_host_is_refused_everywhere(host: str | None) -> None:
    for bind in ("127.0.0.1", "0.0.0.0"):
        assert call(guarded(host=bind), "GET", "/health", host=host).status == 400


def test_S11_names_can_be_allowed_and_elsewhere_any_will_do() -> None:
    named = guarded(allow_hosts=("Translate.Example", "fd00::7"))
    assert call(named, "GET", "/health", host="translate.example:8443").status == 200
    assert call(named, "GET", "/health", host="[fd00:0::7]:80").status == 200
    assert call(named, "GET", "/health", host="other.example").status == 403
    assert call(guarded(host="0.0.0.0"), "GET", "/health", host="any.example").status == 200
    public = guarded(host="0.0.0.0", allow_hosts=("translate.example",))
    assert call(public, "GET", "/health", host="any.example").status == 403
    assert call(public, "GET", "/health", host="0.0.0.0").status == 403
    assert call(public, "GET", "/health", host="localhost").status == 200
    assert (
        call(guarded(host="10.1.2.3", allow_hosts=("a.example",)), "GET", "/health", host="10.1.2.3:5000").status == 200
    )


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "", "http://127.0.0.1:5001", "http://127.0.0.1", "file://", "127.0.0.1:5000", "http://127.0.0.1:5000.evil.example", "http://evil.example@127.0.0.1:5000"])  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_S11_pages_of_other_sites_are_refused_by_default(origin: str, method: str) -> None:
    ask = {"Origin": origin, "Access-Control-Request-Method": "POST"}
    reply = call(guarded(), method, "/health", headers=ask)
    assert reply.status == 403
    assert not [name for name in reply.headers if name.startswith("access-control")]


@pytest.mark.parametrize("origin", [f"http://{HOST}", f"https://{HOST}", f"HTTP://{HOST}"])
def test_S11_pages_of_our_own_may_ask(origin: str) -> None:
    reply = call(guarded(), "GET", "/health", headers={"Origin": origin})
    assert reply.status == 200
    assert "access-control-allow-origin" not in reply.headers
    assert "vary" not in reply.headers
    default_port = call(
        guarded(allow_hosts=("a.example",)),
        "GET",
        "/health",
        host="a.example:443",
        headers={"Origin": "https://a.example"},
    )
    assert default_port.status == 200


def test_S11_sites_can_be_allowed_one_by_one_but_never_with_credentials() -> None:
    app = guarded(allow_origins=(f"{SITE}/",))
    reply = call(app, "GET", "/health", headers={"Origin": SITE})
    assert reply.status == 200
    assert reply.headers["access-control-allow-origin"] == SITE
    assert reply.headers["vary"] == "Origin"
    assert "access-control-allow-credentials" not in reply.headers
    refused = call(app, "POST", "/nothing", headers={"Origin": SITE})
    assert (refused.status, refused.headers["access-control-allow-origin"]) == (404, SITE), "a page may read why"
    assert call(app, "GET", "/health").headers["vary"] == "Origin", "a cache must not give this to another site"
    for other in (
        "https://evil.example",
        "null",
        "http://reader.example",
        "https://reader.example.evil.example",
        "https://sub.reader.example",
    ):
        assert call(app, "GET", "/health", headers={"Origin": other}).status == 403


def test_S11_every_site_can_be_allowed() -> None:
    for origin in (SITE, "null"):
        reply = call(guarded(allow_origins=("*",)), "GET", "/health", headers={"Origin": origin})
        assert (reply.status, reply.headers["access-control-allow-origin"]) == (200, "*")
        assert "access-control-allow-credentials" not in reply.headers


@pytest.mark.parametrize("keys", [(), ("secret",)])
def test_S11_a_pre_flight_is_answered_without_a_key(keys: tuple[str, ...]) -> None:
    app = guarded(allow_origins=(SITE,), api_keys=keys)
    ask = {"Origin": SITE, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    reply = call(app, "OPTIONS", "/translate", headers=ask)
    assert (reply.status, reply.body) == (204, b"")
    assert reply.headers["access-control-allow-origin"] == SITE
    assert reply.headers["access-control-allow-methods"] == "GET, POST"
    assert "Content-Type" in reply.headers["access-control-allow-headers"]
    assert call(app, "OPTIONS", "/translate", headers={**ask, "Origin": "https://evil.example"}).status == 403


@pytest.mark.parametrize("origin", ["reader.example", "https://reader.example/page", "https://", "https://a b"])
def test_a_malformed_origin_in_the_settings_is_said_at_once(origin: str) -> None:
    with pytest.raises(UserError, match="is not an origin"):
        guarded(allow_origins=(origin,))


@pytest.mark.parametrize("method, path, status", [("GET", "/health", 200), ("GET", "/nothing", 404), ("PUT", "/health", 405), ("POST", "/fields", 400)])  # fmt: skip
def test_S10_every_answer_has_the_headers_that_keep_browsers_safe(method: str, path: str, status: int) -> None:
    reply = call(guarded(), method, path, body=b"{", headers={"Content-Type": "application/json"})
    assert reply.status == status
    policy = reply.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["x-frame-options"] == "DENY"
    assert reply.headers["referrer-policy"] == "no-referrer"
    assert reply.headers["cache-control"] == "no-store"
    assert "server" not in reply.headers and "x-powered-by" not in reply.headers
    assert len(reply.headers["x-request-id"]) == 16


def test_S10_a_route_may_set_its_own_policy_and_a_page_gets_only_our_style() -> None:
    from fastapi.responses import HTMLResponse, Response

    app = guarded()
    app.get("/page")(lambda: HTMLResponse("<p>"))
    app.get("/own")(
        lambda: Response(
            "x",
            headers={"Content-Security-Policy": "default-src 'self'", "Cache-Control": "max-age=60", "Server": "x/1.0"},
        )
    )
    page = call(app, "GET", "/page").headers["content-security-policy"]
    assert "style-src 'self'" in page and "script" not in page and "http" not in page
    own = call(app, "GET", "/own").headers
    assert (own["content-security-policy"], own["cache-control"], own.get("server")) == (
        "default-src 'self'",
        "max-age=60",
        None,
    )


def test_the_request_id_is_ours_and_new_each_time() -> None:
    app = guarded()
    replies = [call(app, "GET", "/health", headers={"X-Request-ID": "mine"}).headers["x-request-id"] for _ in range(3)]
    assert len(set(replies)) == 3 and "mine" not in replies


def test_R15_while_it_stops_a_server_refuses_all_but_health() -> None:
    app = guarded()
    app.state.draining = app.state.refusing = True
    reply = call(app, "POST", "/translate", q="a")
    assert reply.status == 503
    assert int(reply.headers["retry-after"]) > 0
    assert reply.headers["connection"] == "close"
    assert call(app, "GET", "/health").status == 200


def test_R15_while_balancers_take_notice_it_answers_and_closes_each_connection() -> None:
    app = guarded()
    assert "connection" not in call(app, "POST", "/translate", q="a").headers
    app.state.draining = True
    reply = call(app, "POST", "/translate", q="a")
    assert (reply.status, reply.json(), reply.headers["connection"]) == (200, {"translatedText": "A"}, "close")


def test_a_prefix_holds_for_every_path() -> None:
    for written in ("/below", "below/", "/below/"):
        app = guarded(url_prefix=written, api_keys=("k",))
        assert call(app, "GET", "/below/health").status == 200
        assert call(app, "POST", "/below/translate", q="abc", api_key="k").json() == {"translatedText": "ABC"}
        assert call(app, "POST", "/below/v2/fields").json() == {
            "message": "Please contact the server operator to get an API key"
        }
        for outside in ("/health", "/translate", "/belowhealth", "/", "/v2/fields"):
            reply = call(app, "GET", outside)
            assert reply.status == 404


def test_websockets_are_closed() -> None:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    scope = {"type": "websocket", "path": "/health", "headers": [], "query_string": b""}
    asyncio.run(guarded()(scope, receive, send))
    assert [message["type"] for message in sent] == ["websocket.close"]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "localhost", "::1", "[::1]"])
def test_S14_on_a_loopback_address_there_is_nothing_to_warn_of(host: str) -> None:
    assert is_loopback(host)
    assert warning(Settings(host=host)) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::", "192.168.1.5", "translate.example"])
def test_S14_elsewhere_without_a_key_there_is_a_warning(host: str) -> None:
    said = warning(Settings(host=host, port=5001))
    assert said and "5001" in said and "key" in said and "\n" not in said
    assert warning(Settings(host=host, api_keys=("k",))) is None
    assert Settings().host == "127.0.0.1"
