"""The page to translate as files: nothing inline or from elsewhere, nothing of the server in it, nothing computed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from serving.calling import HOST, call
from serving.fakes import FakePool, fake_app

from regard.serving.catalogue import Catalogue, ServedModel
from regard.serving.http.routes.page import page_files


def test_S10_every_file_is_served_under_a_strict_policy_and_counts_for_no_limit() -> None:
    pool = FakePool()
    app = fake_app(pool, api_keys=("k",), req_limit=1)
    for path in ("/", *(f"/page/{name}" for name in page_files() if name != "index.html")):
        reply = call(app, "GET", path)
        assert reply.status == 200, path
        rules = dict(rule.split(" ", 1) for rule in reply.headers["content-security-policy"].split("; "))
        assert rules["default-src"] == rules["frame-ancestors"] == rules["form-action"] == "'none'"
        assert {rules[f"{kind}-src"] for kind in ("script", "style", "connect", "img", "worker", "manifest")} == {
            "'self'"
        }
        assert reply.headers["x-content-type-options"] == "nosniff"
    assert not pool.calls
    for path in ("/page/index.html", "/page/nothing.js", "/page/../api_keys.py", "/page/%2e%2e/settings.py", "/page/"):
        assert call(app, "GET", path).status == 404, path
    assert call(app, "POST", "/translate", q="a", source="fr", target="en", api_key="k").status == 200
    assert call(app, "POST", "/translate", q="a", source="fr", target="en", api_key="k").status == 429


def test_S10_nothing_is_inline_or_from_another_host() -> None:
    page = page_files()["index.html"].read_text()
    assert re.findall(r"<script([^>]*)>(.*?)</script>", page, re.S) == [(' type="module" src="page/main.js"', "")]
    assert not re.search(r"<style|\sstyle=|\son\w+=", page)
    for name, path in page_files().items():
        text = re.sub(r'xmlns="http://www.w3.org/2000/svg"|createElementNS\([^)]*\)', "", path.read_text())
        assert not re.search(r"(?:https?:)?//[a-z0-9-]+\.[a-z]", re.sub(r"(?m)^\s*//.*$|(?<=\s)// .*$", "", text)), name
        if name.endswith(".js"):
            assert not re.search(r"\.innerHTML|\beval\(|new Function|document\.write", text), name
            assert all(one in page_files() for one in re.findall(r'from "\./([^"]+)"', text)), name


def test_the_page_is_the_same_on_every_server_and_names_no_model() -> None:
    other = Catalogue([ServedModel("secret-model", Path("/m"), "translate", "de", "fr")])
    pages = [
        call(fake_app(models=models, **more), "GET", "/").body
        for models, more in ((None, {}), (other, {"api_keys": ("k",)}))
    ]
    assert pages[0] == pages[1] and b"secret-model" not in pages[0]


def test_behind_a_prefix_and_as_an_installed_page() -> None:
    app = fake_app(url_prefix="/lt")
    assert call(app, "GET", "/lt/").status == 200
    worker = call(app, "GET", "/lt/page/service_worker.js")
    assert worker.headers["service-worker-allowed"] == "/lt/"
    manifest = call(app, "GET", "/lt/page/manifest.webmanifest")
    assert manifest.headers["content-type"].startswith("application/manifest+json")
    found = json.loads(manifest.body)
    assert found["start_url"] == "../" and found["icons"][0]["src"] in page_files()


@pytest.mark.parametrize("how", ["turned off", "no translator"])
def test_without_the_page_the_documentation_is_at_the_root(how: str) -> None:
    poet = Catalogue([ServedModel("poet", Path("/m"), "generate")])
    app = fake_app(web_page=False) if how == "turned off" else fake_app(models=poet)
    assert call(app, "GET", "/").body == call(app, "GET", "/docs").body
    assert call(app, "GET", "/page/main.js").status == 404


def test_a_page_of_another_site_may_not_use_it() -> None:
    headers = {"Origin": "http://evil.example", "Host": HOST}
    assert call(fake_app(), "POST", "/suggest", headers=headers, q="a").status == 403
