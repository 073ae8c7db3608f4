"""`regard glossary check` and `regard translate --glossary`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

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


def test_a_glossary_needs_one_model(terms: str, run_regard: Any) -> None:
    _, err = run_regard("translate", "--glossary", terms, "--via", "de", "Oui.", code=2)
    assert err.startswith("regard: --glossary needs one model that translates directly")


def test_checking_needs_no_torch(terms: str, run_regard: Any) -> None:
    assert "torch" not in imported("glossary", "check", terms)[1]
