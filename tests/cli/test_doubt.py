"""`regard translate --doubt`, `regard check` and `regard calibrate`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, get_args

import pytest

from regard.checks import CHECKS
from regard.cli.check import Check
from regard.cli.command import USUAL_VALUES, _with_values
from regard.cli.doubt import Doubt
from regard.confidence.calibration import Calibrations
from regard.confidence.marks import USUAL_THRESHOLD
from regard.find_model import find_model
from regard.storage import CALIBRATION

from .conftest import imported

WRONG = "N'oublie pas d'acheter du pain en rentrant."
MARKED = "Don't forget to buy bread [by pulling out?].\n"


@pytest.fixture
def texts(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "a.fr").write_text("Oui.\nIl a 250 francs.\nLe chien dort.\n")
    (tmp_path / "a.en").write_text("Yes.\nHe has 520 francs.\nThe hound sleeps.\n")
    return str(tmp_path / "a.fr"), str(tmp_path / "a.en")


def test_doubtful_words_are_marked(run_regard: Any) -> None:
    assert run_regard("translate", "--doubt", WRONG, "Oui.") == (MARKED + "Yes.\n", "")
    out, _ = run_regard("translate", WRONG, "--doubt", "0", "--html")
    assert out == MARKED.replace("[", "").replace("?]", "")
    assert 'class="doubtful"' in run_regard("translate", WRONG, "--doubt=.5", "--html")[0]


def test_json_has_confidences_and_stdin_warnings(run_regard: Any) -> None:
    out, err = run_regard("translate", "--doubt", "--json", stdin="Oui.\n\nLe 👍 est parti.\n")
    first, empty, third = map(json.loads, out.splitlines())
    assert 0.5 < first["confidence"] < 1 and first["warnings"] == []
    assert [first["text"][w["start"] : w["end"]] for w in first["words"]] == ["Yes"]
    assert empty["confidence"] is None and third["confidence"] and third["text"][-1] == "." and err == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--doubt=2", "a"), "--doubt: wants a number from 0 to 1, given 2"),
        (("--html", "a"), "--html marks doubtful words in a line of HTML; add --doubt"),
        (("--doubt", "--server", "http://localhost:1", "a"), "--doubt needs the model here"),
    ],
)
def test_what_cannot_be_is_refused(options: tuple[str, ...], message: str, run_regard: Any) -> None:
    out, err = run_regard("translate", *options, code=2)
    assert out == "" and err.startswith(f"regard: {message}") and err.count("\n") == 1


def test_the_number_may_be_left_out() -> None:
    usual = USUAL_VALUES["translate"]
    assert usual["--doubt"] == str(USUAL_THRESHOLD) and get_args(Doubt)
    assert _with_values(["--doubt", "Oui."], usual) == ["--doubt=0.5", "Oui."]
    assert _with_values(["--doubt", ".7", "--", "--doubt"], usual) == ["--doubt", ".7", "--", "--doubt"]
    assert _with_values(["a", "--doubt"], usual) == ["a", "--doubt=0.5"]


def test_check_prints_what_it_finds_and_exits_with_1(texts: tuple[str, str], run_regard: Any) -> None:
    out, err = run_regard("check", *texts, "--from", "fr", "--to", "en", code=1)
    wanted = f"{texts[0]}, line 2: numbers: 250 of the source is missing; the translation has 520\n"
    assert out == wanted and err == "regard: 3 translations, 1 with findings\n"
    found = json.loads(run_regard("check", *texts, "--json", "-q", code=1)[0])
    assert found["where"] == "line 2" and found["check"] == "numbers" and found["target"] == "He has 520 francs."


def test_check_with_nothing_to_find_exits_with_0(texts: tuple[str, str], run_regard: Any) -> None:
    out, err = run_regard("check", *texts, "--skip", "numbers")
    assert out == "" and "the languages are not known" in err


def test_check_with_a_glossary_and_without_torch(texts: tuple[str, str], tmp_path: Path, run_regard: Any) -> None:
    (tmp_path / "terms.tsv").write_text("chien\tdog\n")
    options = ("check", *texts, "--skip", "numbers", "--glossary", str(tmp_path / "terms.tsv"))
    assert "line 3: glossary: 'chien' must be translated 'dog'" in run_regard(*options, code=1)[0]
    assert "torch" not in imported(*options)[1]


def test_check_refuses_what_is_no_pair(texts: tuple[str, str], run_regard: Any) -> None:
    _, err = run_regard("check", texts[0], code=2)
    assert "name its translation, too" in err and err.count("\n") == 1


def test_the_checks_of_the_option_are_all_of_them() -> None:
    assert list(Check) == list(CHECKS)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A shipped model without its calibration."""
    place = tmp_path / "model"
    shutil.copytree(find_model("fr-en"), place, ignore=shutil.ignore_patterns(CALIBRATION))
    return place


def test_calibrate_writes_and_measures(model: Path, tmp_path: Path, run_regard: Any) -> None:
    words = ["un chat", "un chien", "je suis là", "il dort", "elle lit", "où est-il ?", "nous partons", "oui"]
    other = ["a cat", "a dog", "I am here", "he sleeps", "she reads", "where is he?", "we leave", "no way"]
    (tmp_path / "a.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in zip(words * 8, other * 8)))
    options = ("calibrate", str(model), "--source", str(tmp_path / "a.tsv"))
    out, err = run_regard(*options, "-o", str(tmp_path / "a.svg"))
    kept = Calibrations.read(model)
    assert kept.of["fr-en"].sentences == 64 and "written to" in err
    assert out.startswith("words: ") and "sentences: 64, " in out
    assert "<svg" in (tmp_path / "a.svg").read_text()
    before = (model / CALIBRATION).read_bytes()
    found = json.loads(run_regard(*options, "--measure", "--json", "-q")[0])
    assert found["sentences"]["count"] == 64 and found["words"]["calibration_error"] < 0.2
    assert (model / CALIBRATION).read_bytes() == before
    run_regard("translate", "-m", str(model), "--doubt", "oui")  # the folder is still whole


def test_calibrate_refuses_too_little_text(model: Path, tmp_path: Path, run_regard: Any) -> None:
    (tmp_path / "a.tsv").write_text("oui\tyes\n")
    for options in ([], ["--source", str(tmp_path / "a.tsv")], ["--source", str(tmp_path / "a.tsv"), "-o", "a.png"]):
        out, err = run_regard("calibrate", str(model), *options, "-q", code=2)
        assert out == "" and err.count("\n") == 1 and not (model / CALIBRATION).exists()
