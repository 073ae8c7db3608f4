"""`regard keys`: a key is printed once, listed by its name, and works until it is removed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regard.serving.state import digest_of, open_state

from .conftest import imported


def test_add_list_and_remove(tmp_path: Path, run_regard) -> None:
    state = ("--state", str(tmp_path / "state"))
    key, err = run_regard("keys", "add", "site", *state)
    key = key.removesuffix("\n")
    assert len(key) == 32 and err == ""
    store = open_state(state[1])
    assert store.key_status(digest_of(key)) == (True, True)
    out, _ = run_regard("keys", "list", *state)
    assert out.startswith("site  20") and key not in out and digest_of(key) not in out
    (row,) = json.loads(run_regard("keys", "list", "--json", *state)[0])
    assert row["name"] == "site" and row["added"].endswith("+00:00")
    _, err = run_regard("keys", "add", "site", *state, code=2)
    assert err == "regard: there is a key named 'site'; choose another name, or first: regard keys remove site\n"
    assert run_regard("keys", "remove", "site", *state) == ("", "")
    assert store.key_status(digest_of(key)) == (False, True)
    assert run_regard("keys", "list", *state) == ("", "regard: no keys\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["add", "site"], "which keys? give the servers' --state, or set REGARD_STATE"),
        (["add", "two words", "--state", "FILE"], "'two words' is not a name for a key"),
        (["remove", "nobody", "--state", "FILE"], "there is no key named 'nobody'"),
        (["list", "--state", "/nowhere/state"], "--state /nowhere/state: cannot be opened (No such file or directory)"),
        (["list", "--state", "redis://:pa55@127.0.0.1:1"], "--state: Redis cannot be used"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str], message: str, tmp_path: Path, run_regard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REGARD_STATE", raising=False)
    out, err = run_regard("keys", *(str(tmp_path / "s") if word == "FILE" else word for word in arguments), code=2)
    assert out == "" and err.startswith("regard: ") and message in err and err.count("\n") == 1
    assert "pa55" not in err


def test_the_store_may_be_in_the_environment(tmp_path: Path, run_regard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_STATE", str(tmp_path / "state"))
    run_regard("keys", "add", "site")
    monkeypatch.setenv("REGARD_STATE", str(tmp_path / "state"))
    assert run_regard("keys", "list")[0].startswith("site ")


def test_help_needs_neither_torch_nor_the_server() -> None:
    _, modules = imported("keys", "--help")
    assert not {"torch", "numpy", "fastapi", "sqlite3", "redis"} & modules
