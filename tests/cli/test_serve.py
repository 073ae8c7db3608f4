"""`regard serve` up to the server: options, environment variables, secrets and mistakes (R18)."""

from __future__ import annotations

import dataclasses
import os
import resource
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from regard.cli import main
from regard.cli.serve import serve
from regard.errors import UserError
from regard.serving.http import server
from regard.serving.settings import Settings

from .conftest import command, environment, imported, regard

KEY, TOKEN = "k3y-Of_mine!", "t0ken"


@pytest.fixture
def started(monkeypatch) -> list[Settings]:
    """What servers would have been started with; none is."""
    seen: list[Settings] = []
    monkeypatch.setattr(server, "serve", lambda settings, note: seen.append(settings) or 3)
    for name in [name for name in os.environ if name.startswith(("REGARD_", "LT_"))]:
        monkeypatch.delenv(name)
    return seen


def run(monkeypatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["regard", "serve", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def test_what_is_not_said_is_as_settings_say(started, monkeypatch):
    assert run(monkeypatch) == 3, "the server's exit code is ours"
    assert started == [Settings()]


EVERY = {
    "models": ("--model", "fr-en"),
    "load_only": ("--load-only", "fr,en"),
    "host": ("--host", "::1"),
    "port": ("--port", "5001"),
    "url_prefix": ("--url-prefix", "lt/"),
    "device": ("--device", "cpu"),
    "precision": ("--precision", "float32"),
    "engine": ("--engine", "torch"),
    "workers": ("--workers", "3"),
    "worker_memory": ("--worker-memory", "900"),
    "state": ("--state", "state.db"),
    "key_link": ("--key-link", "https://example.org/key"),
    "allow_origins": ("--allow-origin", "https://example.org"),
    "allow_hosts": ("--allow-host", "example.org"),
    "trusted_proxies": ("--trusted-proxy", "10.0.0.1"),
    "log": ("--quiet", "true"),
    "suggestions": ("--suggestions", "suggestions.db"),
    "web_page": ("--disable-web-ui", "true"),
    "telemetry": ("--telemetry", "https://example.org/v1/traces"),
    "metrics": ("--metrics", "true"),
    "char_limit": ("--char-limit", "-1"),
    "document_limit": ("--document-limit", "0"),
    "batch_limit": ("--batch-limit", "7"),
    "alternatives_limit": ("--alternatives-limit", "0"),
    "beam_limit": ("--beam-limit", "5"),
    "req_limit": ("--req-limit", "60"),
    "text_limit": ("--text-limit", "1000"),
    "body_limit": ("--body-limit", "2000"),
    "queue_limit": ("--queue-limit", "10"),
    "wait_limit": ("--wait-limit", "1.5"),
    "timeout": ("--timeout", "2.5"),
    "load_timeout": ("--load-timeout", "7.5"),
    "drain": ("--drain", "2.5"),
    "grace": ("--grace", "0"),
    "translation_cache": ("--translation-cache", "all"),
}
STUDIO = {"warm", "threads"}  # only the studio changes these
LIBRE = ["HOST", "PORT", "CHAR_LIMIT", "REQ_LIMIT", "BATCH_LIMIT", "ALTERNATIVES_LIMIT", "URL_PREFIX", "METRICS", "TRANSLATION_CACHE", "DISABLE_WEB_UI"]  # fmt: skip


def expected(name: str, said: str) -> object:
    special: dict[str, object] = {
        "url_prefix": "/lt",
        "translation_cache": 10_000,
        "metrics": True,
        "log": False,
        "web_page": False,
    }
    special["load_only"] = ("fr", "en")
    usual = getattr(Settings(), name)
    if name in special:
        return special[name]
    return (said,) if isinstance(usual, tuple) else type(usual)(said)


def test_every_setting_is_an_option():
    assert {field.name for field in dataclasses.fields(Settings)} - {"api_keys", "metrics_token", *STUDIO} == set(EVERY)


@pytest.mark.parametrize("name", EVERY)
def test_every_setting_can_be_said_in_each_way(name, started, monkeypatch):
    option, said = EVERY[name]
    wanted = dataclasses.replace(Settings(), **{name: expected(name, said)})
    run(monkeypatch, option, *([] if said == "true" else [said]))
    variable = option.removeprefix("--").replace("-", "_").upper()
    ways = [f"REGARD_{variable}", *([f"LT_{variable}"] if variable in LIBRE else [])]
    for way in ways:
        with monkeypatch.context() as here:
            here.setenv(way, said)
            run(monkeypatch)
    assert started == [wanted] * (1 + len(ways))


def test_an_option_wins_over_the_environment_and_ours_over_libretranslates(started, monkeypatch):
    monkeypatch.setenv("LT_PORT", "1")
    run(monkeypatch)
    monkeypatch.setenv("REGARD_PORT", "2")
    run(monkeypatch)
    run(monkeypatch, "--port", "3")
    assert [settings.port for settings in started] == [1, 2, 3]


def test_libretranslates_other_settings_are_taken(started, monkeypatch):
    monkeypatch.setenv("LT_THREADS", "9")
    monkeypatch.setenv("LT_DISABLE_WEB_UI", "true")
    run(monkeypatch, "--threads", "9", "--disable-web-ui")
    assert started == [Settings(web_page=False)]


def test_lists_are_separated_by_spaces_in_the_environment(started, monkeypatch):
    monkeypatch.setenv("REGARD_ALLOW_ORIGIN", "https://a.example https://b.example")
    run(monkeypatch, "--model", "fr-en", "-m", "elsewhere")
    assert started[0].allow_origins == ("https://a.example", "https://b.example")
    assert started[0].models == ("fr-en", "elsewhere")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--port", "65536"], "--port: '65536' is not a port"),
        (["--port", "-1"], "--port: '-1' is not a port"),
        (["--port", "http"], "--port: 'http' is not a port"),
        (["--char-limit", "0"], "--char-limit: wants a whole number of at least 1, or -1 for no limit, given 0"),
        (["--queue-limit", "-1"], "--queue-limit: wants a whole number from 1 to 1,073,741,824, given -1"),
        (["--timeout", "0"], "--timeout: wants a number from 0.001 to 86,400, given 0"),
        (["--timeout", "nan"], "--timeout: wants a number from 0.001 to 86,400, given 'nan'"),
        (["--load-timeout", "0"], "--load-timeout: wants a number from 0.001 to 86,400, given 0"),
        (["--url-prefix", "/a b"], "--url-prefix: '/a b' is not a URL path"),
        (["--url-prefix", "/../x"], "--url-prefix: '/../x' is not a URL path"),
        (["--translation-cache", "S3CRET"], "--translation-cache: give a number of sentences"),
        (["--load-only", "de,en"], "--load-only de,en: no model for these languages; available: fr-en"),
        (["--api-key-file", "none"], "none: cannot be read (No such file or directory)"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_R18_what_makes_no_sense_is_refused_in_one_line(arguments, message, started, monkeypatch, capfd, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, *arguments) == 2 and not started
    out, err = capfd.readouterr()
    assert out == "" and err.startswith("regard: ") and message in err and err.count("\n") == 1 and "S3CRET" not in err


def test_only_models_between_the_named_languages(started, monkeypatch, model, tmp_path):
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    for name, pair in (("one", ("fr", "en")), ("two", ("de", "en")), ("run", ("en", "de"))):
        folder = shelf / name / "model" if name == "run" else shelf / name
        copy_of(Path(model), folder, *pair)
    monkeypatch.setenv("LT_LOAD_ONLY", "de, EN")
    run(monkeypatch, "--model", str(shelf), "--model", "fr-en")
    assert sorted(started[0].models) == [str(shelf / "run"), str(shelf / "two")]
    run(monkeypatch, "--model", str(shelf / "run"), "--model", str(shelf / "one"))
    assert started[1].models == (str(shelf / "run"),)


def copy_of(model: Path, folder: Path, source: str, target: str) -> None:
    from regard.config import read_recipe, to_toml
    from regard.storage import write_folder

    files = {file.name: file.read_bytes() for file in model.iterdir() if file.name != "manifest.json"}
    recipe = dataclasses.replace(read_recipe(model), source_language=source, target_language=target)
    write_folder(folder, {**files, "recipe.toml": to_toml(recipe).encode()})


# Secrets.


def secret_file(path: Path, text: str, mode: int = 0o600) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_S12_keys_come_from_a_file_and_the_environment(started, monkeypatch, tmp_path):
    keys = secret_file(tmp_path / "keys", f"# ours\n\n{KEY}\n  second  \n", 0o640)
    monkeypatch.setenv("REGARD_API_KEY", "third")
    monkeypatch.setenv("LT_METRICS_AUTH_TOKEN", "other")
    run(monkeypatch, "--api-key-file", keys, "--metrics-token-file", secret_file(tmp_path / "token", TOKEN))
    assert started[0].api_keys == (KEY, "second", "third") and started[0].metrics_token == TOKEN
    assert not {"REGARD_API_KEY", "LT_METRICS_AUTH_TOKEN"} & set(os.environ), "workers need not inherit them"
    monkeypatch.setenv("LT_METRICS_AUTH_TOKEN", "other")
    run(monkeypatch)
    assert started[1].metrics_token == "other" and started[1].api_keys == ()


@pytest.mark.parametrize(
    ("text", "mode", "message"),
    [
        (KEY, 0o604, "this file holds secrets but is world-readable; run: chmod o= "),
        (KEY, 0o644, "this file holds secrets"),
        ("# nothing\n\n", 0o600, "contains no key; write one per line"),
        (f"{KEY} two words", 0o600, "a key consists of printable ASCII"),
        (f"{KEY}\u20ac", 0o600, "a key consists of printable ASCII"),
    ],
)
def test_S12_a_file_that_cannot_keep_a_secret_is_refused(text, mode, message, started, monkeypatch, tmp_path, capfd):
    assert run(monkeypatch, "--api-key-file", secret_file(tmp_path / "keys", text, mode)) == 2 and not started
    err = capfd.readouterr().err
    assert message in err and err.count("\n") == 1 and KEY not in err


def test_S12_no_option_takes_a_secret_itself():
    """Whoever runs `ps` would see it."""
    told = regard("serve", "--help", text=True).stdout
    assert "--api-key-file FILE" in told and "--metrics-token-file FILE" in told
    assert not {"--api-key", "--api-keys", "--metrics-token"} & set(told.split())


def test_S14_listening_for_all_without_a_key_is_warned_of(monkeypatch):
    async def at_once(*arguments) -> int:
        return 0

    monkeypatch.setattr(server, "_run", at_once)
    told: list[str] = []
    for settings in (
        Settings(port=0),
        Settings(port=0, host="0.0.0.0", api_keys=(KEY,)),
        Settings(port=0, host="0.0.0.0"),
    ):
        assert not told and server.serve(settings, told.append) == 0
    assert len(told) == 1 and told[0].startswith("anyone who can reach 0.0.0.0")
    assert Settings().host == "127.0.0.1"


# Help, and mistakes from outside.


def test_help_is_grouped_and_imports_no_server():
    out, modules = imported("serve", "--help")
    assert not {"torch", "fastapi", "uvicorn", "starlette"} & modules
    places = [out.index(f"\n{heading}:\n") for heading in ("Models", "Address", "Access", "Limits")]
    assert places == sorted(places)


def test_R18_mistakes_are_said_within_two_seconds_and_without_a_traceback(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for arguments, message in (
            (["--port", "99999"], "--port: '99999' is not a port"),
            (["--port", port], f"port {port} is in use"),
            (["--model", "fr-em"], "no model 'fr-em'; did you mean 'fr-en'?"),
            (["--model", str(tmp_path)], "no model in this folder"),
            (["--device", "cdua"], "device 'cdua' is not known"),
            (["--state", "/nowhere/state"], "--state /nowhere/state: cannot be opened"),
            (["--telemetry", "collector:4318"], "--telemetry: not a URL of a collector"),
        ):
            begin = computed()
            done = subprocess.run(command("serve", *arguments), env=environment(), capture_output=True, text=True)
            assert computed() - begin < 2, arguments
            assert (done.returncode, done.stdout) == (2, ""), done.stderr
            assert done.stderr.startswith("regard: ") and message in done.stderr and done.stderr.count("\n") == 1


def computed() -> float:
    """Processor time of children: what they take on a machine that has nothing else to do."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_it_is_called_from_python_too(started):
    with pytest.raises(typer.Exit) as ended:
        serve(port="0", model=["fr-en"])
    assert ended.value.exit_code == 3 and started[0].port == 0
    with pytest.raises(UserError):
        serve(port="x")
