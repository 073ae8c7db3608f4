"""Third-party clients of LibreTranslate and DeepL, unchanged, against our real server with an API key.

Those from npm run where node is and npm can install them. `regard translate --server` is the client of our own.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import shutil
import subprocess
import sys
import time
import urllib.error
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import deepl
import pytest
import requests
from deep_translator import LibreTranslator
from deep_translator.exceptions import AuthorizationException, ServerException
from libretranslatepy import LibreTranslateAPI
from serving.running import Running, environment, running_server
from translate import Translator
from translate.exceptions import TranslationError

from regard.cli.terminal import Format
from regard.cli.translate import translate

KEY = "0pen-Sesame"
FRENCH, ENGLISH = "Je suis étudiant.", "I'm a student."
STATION, WHERE = "Où est la gare ?", "Where's the station?"
LINES = [FRENCH, "", STATION, "  ", "Mon frère habite à Paris depuis trois ans.", "Voyez http://example.org/a?b=c !"]


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running_server("--workers", "1", "--device", "cpu", env={"REGARD_API_KEY": KEY}) as url:
        yield url


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    monkeypatch.delenv("REGARD_API_KEY", raising=False)


# From PyPI.


def test_libretranslatepy(server: Running) -> None:
    client = LibreTranslateAPI(server, api_key=KEY)
    assert client.translate(FRENCH, "fr", "en") == ENGLISH
    assert client.translate(f"{FRENCH}\n\n{STATION}", "fr", "en") == f"{ENGLISH}\n\n{WHERE}"
    assert client.translate(FRENCH, "auto", "en") == ENGLISH
    best = client.detect("Je suis étudiant et j'habite à Paris.")[0]
    assert best["language"] == "fr" and 0 < best["confidence"] <= 100
    for key, source, status in ((KEY, "zz", 400), (None, "fr", 400), (f"{KEY}x", "fr", 403), (KEY.upper(), "fr", 403)):
        with pytest.raises(urllib.error.HTTPError) as refused:
            LibreTranslateAPI(server, api_key=key).translate(FRENCH, source, "en")
        assert refused.value.code == status and set(json.load(refused.value)) == {"error"}


@pytest.mark.parametrize("key", [{}, {"api_key": KEY}])
def test_libretranslatepy_lists_languages_with_a_body_on_a_get(server: Running, key: dict[str, str]) -> None:
    """What its version 2.1.4 sends; 2.1.1, to which `translate` pins it, sends a POST, which LibreTranslate refuses too."""
    connection = http.client.HTTPConnection(server.removeprefix("http://"))
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Connection": "close"}
    connection.request("GET", "/languages", urlencode(key), headers)
    response = connection.getresponse()
    found = {language["code"]: language for language in json.load(response)}
    connection.close()
    assert response.status == 200 and found["fr"]["name"] == "French" and set(found["fr"]["targets"]) == {"fr", "en"}


def test_deep_translator(server: Running) -> None:
    def client(**more: Any) -> LibreTranslator:
        return LibreTranslator(**{"source": "fr", "target": "en", "custom_url": f"{server}/", "api_key": KEY, **more})

    assert client().translate(FRENCH) == ENGLISH
    assert client().translate_batch([FRENCH, STATION]) == [ENGLISH, WHERE]
    assert client(source="auto").translate(FRENCH) == ENGLISH
    assert client().translate("a&b=c +%20 é") not in ("", None), "all of it comes in the address"
    with pytest.raises(AuthorizationException):
        client(api_key="wrong").translate(FRENCH)
    with pytest.raises(ServerException):
        client(target="de").translate(FRENCH)


def test_translate(server: Running) -> None:
    def client(**more: Any) -> Translator:
        given = {"provider": "libre", "from_lang": "fr", "to_lang": "en", "base_url": server, "secret_access_key": KEY}
        return Translator(**{**given, **more})

    assert client().translate(FRENCH) == ENGLISH
    assert client(from_lang="autodetect").translate("Je suis étudiant et j'habite à Paris.").startswith("I")
    with pytest.raises(TranslationError):
        client(to_lang="de").translate(FRENCH)


def test_deepl(server: Running) -> None:
    client = deepl.DeepLClient(KEY, server_url=server)
    found = client.translate_text(FRENCH, target_lang="EN-US")
    assert isinstance(found, deepl.TextResult)
    assert (found.text, found.detected_source_lang, found.billed_characters) == (ENGLISH, "FR", len(FRENCH))
    several = client.translate_text([FRENCH, STATION], source_lang="FR", target_lang="EN-GB")
    assert isinstance(several, list) and [one.text for one in several] == [ENGLISH, WHERE]
    page = client.translate_text(f"<p title='gare'>{FRENCH}</p>", target_lang="EN-US", tag_handling="html")
    assert isinstance(page, deepl.TextResult) and page.text == f"<p title='gare'>{ENGLISH}</p>"
    assert "FR" in {language.code.upper() for language in client.get_source_languages()}
    assert {"EN"} <= {language.code.upper()[:2] for language in client.get_target_languages()}
    assert not client.get_usage().any_limit_reached
    with pytest.raises(deepl.AuthorizationException):
        deepl.DeepLClient("wrong", server_url=server).translate_text(FRENCH, target_lang="EN-US")
    with pytest.raises(deepl.DeepLException):
        client.translate_text(FRENCH, target_lang="XX")


def test_deepl_translates_a_document(server: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deepl.translator.time.sleep", lambda seconds, sleep=time.sleep: sleep(seconds / 25))
    client = deepl.DeepLClient(KEY, server_url=server)
    given, made = tmp_path / "a.html", tmp_path / "b.html"
    given.write_text(f"<p title='gare'>{FRENCH}</p><pre>le code</pre>", encoding="utf-8")
    status = client.translate_document_from_filepath(given, made, target_lang="EN-US")
    assert status.done and (status.billed_characters or 0) > len(FRENCH)
    assert made.read_text(encoding="utf-8") == f"<p title='gare'>{ENGLISH}</p><pre>le code</pre>"
    (tmp_path / "a.docx").write_bytes(b"PK")
    with pytest.raises(deepl.DocumentTranslationException, match="not a zip archive"):
        client.translate_document_from_filepath(tmp_path / "a.docx", tmp_path / "b.docx", target_lang="EN-US")
    with pytest.raises(deepl.DeepLException, match="No such document"):
        client.translate_document_get_status(deepl.DocumentHandle("a", "b"))


def test_a_form_with_a_file_as_libretranslates_page_sends_it(server: Running) -> None:
    """No package on PyPI has a method for it."""
    given = {"source": "auto", "target": "en", "api_key": KEY}
    text = f"{FRENCH}\n\n- {STATION}\n"
    reply = requests.post(f"{server}/translate_file", given, files={"file": ("a.txt", text.encode())}, timeout=60)
    assert requests.get(reply.json()["translatedFileUrl"], timeout=60).text == f"{ENGLISH}\n\n- {WHERE}\n"
    refused = requests.post(
        f"{server}/translate_file", given | {"api_key": "x"}, files={"file": ("a.txt", b"a")}, timeout=60
    )
    assert refused.status_code == 403 and refused.json() == {"error": "Invalid API key"}


# From npm.

LOCKS = Path(__file__).parent / "npm_clients"
"""A folder with package.json and package-lock.json (versions and hashes) for each set of clients."""
GATE, MORE = "gate", "more"
START = """
const [url, key, french, station] = process.argv.slice(2);
const said = {};
const refused = async (promise) => { try { return `no error: ${await promise}`; } catch (error) { return String(error.message ?? error); } };
"""
TRANSLATE = """
import translate from "translate";
translate.engine = "libre"; translate.url = `${url}/translate`; translate.key = key;
said.text = await translate(french, { from: "fr", to: "en" });
said.named = await translate(station, { from: "French", to: "English" });
said.refused = await refused(translate(french, { from: "fr", to: "de" }));
translate.key = "wrong";
said.wrong = await refused(translate("Bonsoir.", { from: "fr", to: "en" }));
"""
LIBRETRANSLATE_TS = """
import { libreTranslate } from "libretranslate-ts";
libreTranslate.setApiEndpoint(url); libreTranslate.setApiKey(key);
said.languages = (await libreTranslate.listLanguages()).map((language) => language.code).sort();
said.detected = await libreTranslate.detect("Je suis étudiant et j'habite à Paris.");
said.text = await libreTranslate.translate(french, "fr", "en");
said.more = await libreTranslate.translate(french, "fr", "en", 2);
said.refused = await libreTranslate.translate(french, "fr", "zz");
"""
LIBRETRANSLATE = """
import pkg from "libretranslate";
said.text = await pkg.translate({ query: french, source: "fr", target: "en", apiurl: url });
said.auto = await pkg.translate({ query: station, target: "en", apiurl: url });
"""
ANYLANG = """
import unstable from "anylang/translators/unstable/LibreTranslateTranslator/index.js";
const client = new unstable.LibreTranslateTranslator({ apiHost: `${url}/translate`, apiKey: key });
said.text = await client.translate(french, "fr", "en");
said.several = await client.translateBatch([french, station], "fr", "en");
"""


def folder_with(clients: str, elsewhere: Path) -> Path:
    """The npm packages, installed once next to the Python packages, without running their scripts."""
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("node and npm are not on this machine")
    lock = LOCKS / clients / "package-lock.json"
    folder = Path(sys.prefix) / "npm-clients" / hashlib.sha256(lock.read_bytes()).hexdigest()[:12]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = elsewhere
    if not (folder / "installed").exists():
        for file in lock.parent.iterdir():
            shutil.copy(file, folder)
        command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
        except subprocess.TimeoutExpired:
            pytest.skip("npm could not install its packages within five minutes")
        if "EINTEGRITY" in done.stderr:
            pytest.fail(f"npm found other packages than those that were locked: {done.stderr}")
        if done.returncode:
            pytest.skip(f"npm could not install its packages (exit code {done.returncode}; is there a registry?)")
        (folder / "installed").touch()
    return folder


@pytest.fixture(scope="module")
def in_node(server: Running, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Any]]:
    def run(clients: str, script: str, url: str = server) -> dict[str, Any]:
        folder = folder_with(clients, tmp_path_factory.mktemp("npm"))
        imports = [line for line in script.splitlines() if line.startswith("import ")]
        rest = script.replace("\n".join(imports), "")
        file = folder / f"{hashlib.sha256(script.encode()).hexdigest()[:8]}.mjs"
        file.write_text("\n".join([*imports, START, rest, "console.log(JSON.stringify(said));"]))
        command = ["node", file.name, url, KEY, FRENCH, STATION]
        done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def test_npm_translate(in_node: Callable[..., dict[str, Any]]) -> None:
    said = in_node(GATE, TRANSLATE)
    assert said["text"] == ENGLISH and said["named"] == WHERE
    assert said["refused"] == "de is not supported" and said["wrong"] == "Invalid API key"


def test_npm_libretranslate_ts(in_node: Callable[..., dict[str, Any]]) -> None:
    said = in_node(GATE, LIBRETRANSLATE_TS)
    assert said["languages"] == ["en", "fr"] and said["detected"]["language"] == "fr"
    assert said["text"]["status"] == 200 and said["text"]["translatedText"] == ENGLISH
    more = said["more"]["alternatives"]
    assert said["more"]["translatedText"] == ENGLISH and 1 <= len(more) <= 2 and ENGLISH not in more
    assert said["refused"]["error"] == "zz is not supported"


@pytest.mark.slow
def test_npm_libretranslate(in_node: Callable[..., dict[str, Any]]) -> None:
    """This client cannot send a key in a way that LibreTranslate accepts."""
    with running_server("--workers", "1", "--device", "cpu") as open_server:
        said = in_node(MORE, LIBRETRANSLATE, str(open_server))
    assert said == {"text": ENGLISH, "auto": WHERE}


@pytest.mark.slow
def test_npm_anylang(in_node: Callable[..., dict[str, Any]]) -> None:
    assert in_node(MORE, ANYLANG) == {"text": ENGLISH, "several": [ENGLISH, WHERE]}


# Our own.


@pytest.mark.parametrize(
    "options",
    [{}, {"beam": 2, "n_best": 2, "scores": True, "alignment": True}, {"format": Format.json, "length_penalty": 0.0}],
    ids=["plain", "columns", "json"],
)
def test_regard_translate_server_writes_what_it_writes_alone(
    options: dict[str, Any], server: Running, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any
) -> None:
    monkeypatch.setenv("REGARD_API_KEY", KEY)
    translate(LINES, server=server, **options)
    asked = capfdbinary.readouterr()
    translate(LINES, **{**options, "device": "cpu"})
    alone = capfdbinary.readouterr()
    assert asked.err == b"" and asked.out.count(b"\n") == alone.out.count(b"\n") >= len(LINES)
    assert rounded(asked.out) == rounded(alone.out)


def rounded(out: bytes) -> str:
    """Texts unchanged; numbers to four digits, since further ones depend on the number of threads."""
    return re.sub(r"-?[0-9]+\.[0-9]{4}[0-9]+", lambda found: f"{float(found[0]):.4f}", out.decode())


def test_regard_translate_server_as_a_command(server: Running) -> None:
    def run(*options: str, url: str = server, **env: str) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-m", "regard", "translate", "--server", url, *options]
        text = "".join(f"{line}\r\n" for line in LINES * 60).encode()
        return subprocess.run(command, input=text, env=environment(**env), capture_output=True)

    done = run("--to", "en", REGARD_API_KEY=KEY)
    lines = done.stdout.decode().split("\n")
    assert (done.returncode, done.stderr) == (0, b"") and len(lines) == 60 * len(LINES) + 1
    assert lines[: len(LINES)] * 60 == lines[:-1] and lines[:4] == [ENGLISH, "", WHERE, ""]
    for options, message in (
        ({"REGARD_API_KEY": ""}, "requires a valid API key"),
        ({"REGARD_API_KEY": "wrong"}, "requires a valid API key: Invalid API key; set REGARD_API_KEY"),
        ({"REGARD_API_KEY": KEY, "url": "http://127.0.0.1:9"}, "no server is listening at http://127.0.0.1:9"),
        ({"REGARD_API_KEY": KEY, "url": f"{server}/elsewhere"}, "has no /translate: it is another kind of server"),
    ):
        done = run(**options)
        assert done.returncode == 2 and done.stdout == b"" and done.stderr.count(b"\n") == 1
        assert message in done.stderr.decode()


def test_it_says_nothing_of_keys(server: Running) -> None:
    """After all the requests above."""
    assert server.said and not any(KEY in line for line in server.said)
    shown = subprocess.run(["ps", "-o", "args=", "-p", str(server.process.pid)], capture_output=True, text=True).stdout
    assert "regard serve" in shown and KEY not in shown
