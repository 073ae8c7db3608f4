"""`regard lab`: the list without delay, results on stdout, everything else on stderr, files that load again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from regard.cli.progress import parts_bar

from .conftest import command, environment, imported, regard

NAME = "gradients-through-time"
SAVED = f"lab/{NAME}/{NAME}.json"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> tuple[Path, subprocess.CompletedProcess]:
    """A folder in which an experiment was run, and what was said."""
    made = tmp_path_factory.mktemp("lab")
    return made, regard("lab", NAME, "--size", "tiny", "--seed", "3", "--device", "cpu", text=True, cwd=made)


@pytest.fixture
def run_lab(run_regard):
    return partial(run_regard, "lab")


@pytest.mark.parametrize("words", [["lab"], ["lab", "--help"], ["lab", "--format", "json"]], ids=" ".join)
def test_the_list_comes_without_torch(words):
    assert not {"torch", "numpy", "rich", "matplotlib"} & imported(*words)[1]


def test_the_list_has_names_lectures_and_claims(run_lab):
    out, err = run_lab()
    (line,) = [line for line in out.splitlines() if line.startswith(f"{NAME} ")]
    assert line.split()[1] == "F8" and line.endswith("LSTM and GRU keep them.") and err == ""
    found = {entry["name"]: entry for entry in json.loads(run_lab("--format", "json")[0])}
    assert found[NAME]["lecture"] == "F8" and len(found) == len(out.splitlines())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gradient-thru-time"], f"no experiment 'gradient-thru-time'; did you mean '{NAME}'?"),
        (["../../secret"], "no experiment '../../secret'"),
        ([NAME, "--numbers", "none.json"], "none.json cannot be read"),
        ([NAME, "--numbers", "folder"], "folder cannot be read"),
        ([NAME, "--device", "cdua"], "device 'cdua' is not known"),
        ([NAME, "--output", "a", "--page", "b"], "leave out --output"),
        ([NAME, "--output", "file/under"], "cannot write to file/under"),
        (["--numbers", "x.json"], "name the experiment"),
        (["--page", "folder"], "there are no pages in folder to list"),
        (["heads", "--size", "full"], "data/tatoeba_en_fr, which is not there; `regard data get tatoeba_en_fr` gets"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_one_line(words, message, run_lab, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    Path("folder").mkdir()
    out, err = run_lab(*words, code=2)
    assert out == "" and err.startswith("regard: ") and message in err and err.count("\n") == 1


def test_results_are_on_stdout_and_the_rest_on_stderr(folder):
    where, done = folder
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Gradients through time vanish or explode") and "\nheld: over 23 steps" in done.stdout
    assert "regard/layers/cell/lstm.py:" in done.stdout and "wrote" not in done.stdout
    files = [f"lab/{NAME}/{NAME}.{kind}" for kind in ("json", "svg", "png")]
    assert done.stderr == f"regard: wrote {', '.join(files)}\n"
    assert sorted(path.relative_to(where).as_posix() for path in where.rglob("*.*")) == sorted(files)
    record = json.loads((where / SAVED).read_text())
    assert record["command"] == f"regard lab {NAME} --size tiny --seed 3"
    assert (record["size"], record["seed"], record["experiment"]) == ("tiny", 3, NAME)


def test_saved_numbers_give_the_same_again_at_once(folder, run_lab, tmp_path, monkeypatch):
    where, done = folder
    monkeypatch.chdir(where)
    monkeypatch.setattr("regard.lab._report.measure", None)  # nothing is run
    out, err = run_lab(NAME, "--numbers", SAVED, "--output", tmp_path / "again", "--quiet")
    assert out == done.stdout and err == ""
    for file in (tmp_path / "again").iterdir():
        assert file.read_bytes() == (where / "lab" / NAME / file.name).read_bytes(), file.name


def test_a_verdict_is_judged_anew_and_not_an_error(folder, run_lab, tmp_path):
    record = json.loads((folder[0] / SAVED).read_text())
    for curve in record["numbers"]["curves"]:
        curve["ratios"] = [1.0] * len(curve["ratios"])
    (tmp_path / "other.json").write_text(json.dumps(record))
    out, _ = run_lab(NAME, "--numbers", tmp_path / "other.json", "--output", tmp_path)
    assert "\ndid not hold: " in out


def test_json_is_one_line_with_the_verdict(folder, run_lab, tmp_path):
    out, err = run_lab(NAME, "--numbers", folder[0] / SAVED, "--output", tmp_path, "--format", "json")
    assert out.count("\n") == 1 and err.count("\n") == 1
    found = json.loads(out)
    verdict = found.pop("verdict")
    assert verdict["held"] is True and verdict["sentence"].startswith("over 23 steps")
    assert found == json.loads((folder[0] / SAVED).read_text())


def test_a_page_is_written_instead(folder, run_lab, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_lab(NAME, "--numbers", folder[0] / SAVED, "--page", "docs")
    assert {path.name for path in Path("docs").iterdir()} == {f"{NAME}.{kind}" for kind in ("md", "svg", "json")}
    assert Path(f"docs/{NAME}.md").read_text().startswith("# Gradients through time\n")
    assert not Path("lab").exists()


def test_pages_are_listed_without_a_name(folder, run_lab, tmp_path):
    run_lab(NAME, "--numbers", folder[0] / SAVED, "--page", tmp_path)
    out, err = run_lab("--page", tmp_path)
    assert out == "" and err == f"regard: wrote {tmp_path / 'README.md'}\n"
    assert f"({NAME}.md)" in (tmp_path / "README.md").read_text()


def test_numbers_of_another_version_are_refused_in_one_line(folder, run_lab, tmp_path):
    record = json.loads((folder[0] / SAVED).read_text())
    del record["numbers"]["descents"]
    (tmp_path / "old.json").write_text(json.dumps(record))
    _, err = run_lab(NAME, "--numbers", tmp_path / "old.json", "--output", tmp_path / "out", code=2)
    assert "old.json: there is no 'descents' in these numbers" in err and err.count("\n") == 1


def test_control_c_is_one_line_and_130(tmp_path):
    running = subprocess.Popen(
        command("lab", "heads", "--device", "cpu"), env=environment(), cwd=tmp_path,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert "what each head is worth" in running.stderr.readline()  # in the middle of the work
        os.kill(running.pid, signal.SIGINT)
        out, err = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == 130 and out == "" and err == "regard: stopped before the end; nothing was kept\n"
    assert not list(tmp_path.rglob("*.*"))


def test_a_bar_is_for_a_person_alone(monkeypatch, capfd):
    for wanted, person in ((True, False), (False, True)):
        monkeypatch.setattr(sys.stderr, "isatty", lambda person=person: person, raising=False)
        with parts_bar(wanted) as progress:
            progress(1, 2, "training")
        assert capfd.readouterr() == ("", "")


def test_a_bar_names_what_is_being_done(monkeypatch, capfd):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with parts_bar() as progress:
        progress(3, 7, "training")
        time.sleep(0.3)
        progress(1, 2, "measuring")
        time.sleep(0.3)
    out, err = capfd.readouterr()
    assert out == "" and "training" in err and "3/7" in err and "measuring" in err and "1/2" in err
