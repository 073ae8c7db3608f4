"""`regard glossary check` and `regard translate --glossary`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from regard.cli.remote_translation import remote_translator
from regard.client import Client
from regard.glossary import Glossary

from .conftest import imported


@pytest.fixture
def terms(tmp_path: Path) -> str:
    path = tmp_path / "terms.tsv"
    path.write_text("étudiant\tscholar\nvoiture\tautomobile\tprefer\n")
    return str(path)


def test_check_counts_the_terms(terms: str, run_regard: Any) -> None:
    assert run_regard("glossary", "check", terms, "--model", "fr-en") == ("2 terms: 1 must, 1 prefer\n", "")
    found = json.loads(run_regard("glossary", "check", terms, "--json")[0])
    assert found == {"terms": 2, "must": 1, "prefer": 1, "unwritable": []}


def test_check_names_the_line_that_is_wrong(tmp_path: Path, run_regard: Any) -> None:
    path = tmp_path / "bad.tsv"
    path.write_text("chien\tdog\nchat\n")
    out, err = run_regard("glossary", "check", str(path), code=2)
    assert out == "" and err.startswith(f"regard: {path}, line 2: has 1 columns; write TERM<tab>TRANSLATION")


def test_translate_with_a_glossary(terms: str, run_regard: Any) -> None:
    assert run_regard("translate", "--glossary", terms, "Je suis étudiant.")[0] == "I'm a scholar.\n"


def test_a_server_gets_the_terms_that_occur(terms: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def post(self: Client, path: str, tree: dict[str, Any]) -> Any:
        asked.append(tree)
        answer = {"text": "x", "score": 0, "log_probability": 0, "tokens": [], "finished": True}
        return {"answers": [answer] * len(tree["text"])}

    monkeypatch.setattr(Client, "_post", post)
    ask = remote_translator(
        "http://127.0.0.1:1", ("fr", "en"), True, {"glossary": Glossary.read(terms)}, print, lambda lines: None
    )
    ask(["Je suis étudiant.", "Bonjour."])
    ask(["Bonjour."])
    assert [tree["glossary"] for tree in asked] == [[("étudiant", "scholar", "must")], []]


def test_checking_needs_no_torch(terms: str, run_regard: Any) -> None:
    assert "torch" not in imported("glossary", "check", terms)[1]
