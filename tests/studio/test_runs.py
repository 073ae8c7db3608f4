"""Training runs read while they are written: only runs, only as far as their lines can be believed, never too much."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from serving.calling import call
from serving.fakes import FakePool, catalogue

from regard.locking import hold, is_held
from regard.serving.http.app import app_with_middleware
from regard.serving.settings import Settings
from regard.studio import runs as watching
from regard.studio.metric_lines import AT_ONCE, MOST_BYTES, MOST_LINES, checked, read_on
from regard.studio.run_routes import router
from regard.studio.runs import Runs


def log(step: int, **more: Any) -> dict[str, Any]:
    return {"step": step, "time": 1000.5 + step, "loss": 1 / step, "learning_rate": 0.5, "norm": 2.0, **more}


def validation(step: int, **more: Any) -> dict[str, Any]:
    samples = [{"source": "un chat", "output": f"cat {step}", "reference": "a cat"}]
    return {"step": step, "time": 1000.5, "valid_bleu": 1.5 * step, "valid_loss": 2.0, "samples": samples, **more}


def append(run: Path, *lines: Any) -> None:
    run.mkdir(parents=True, exist_ok=True)
    with (run / "metrics.jsonl").open("ab") as file:
        for line in lines:
            file.write(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")


def a_run(folder: Path, name: str = "fr-en", steps: int = 3) -> Path:
    append(folder / name, *(log(step) for step in range(1, steps + 1)))
    recipe = 'task = "translate"\nsource_language = "fr"\n[training]\nsteps = 100\nmetric = "bleu"\n'
    (folder / name / "recipe.toml").write_text(recipe)
    return folder / name


def asked(folder: Path, path: str, query: str = "") -> tuple[int, Any]:
    app = app_with_middleware(Settings(), catalogue(), FakePool(), [router(folder)], log_requests=False)
    reply = call(app, "GET", f"/studio/runs{path}", query=query)
    return reply.status, reply.json()


# ------------------------------------------------------------------------------------------------------ which runs


def test_the_list_says_what_a_run_is_and_how_far_it_is(tmp_path: Path) -> None:
    a_run(tmp_path)
    status, told = asked(tmp_path, "")
    expected = {
        "name": "fr-en", "task": "translate", "source": "fr", "target": "", "metric": "bleu", "steps": 100,
        "state": "stopped", "started": 1001.5, "changed": 1003.5, "step": 3,
    }  # fmt: skip
    assert (status, told) == (200, {"runs": [expected], "folder": {"name": tmp_path.name, "exists": True}})


def test_the_newest_first_and_those_inside_a_folder(tmp_path: Path) -> None:
    for age, name in enumerate(("old", "crossed/fold-0", "new")):
        run = a_run(tmp_path, name)
        os.utime(run / "metrics.jsonl", (age, age))
    (tmp_path / "a model").mkdir()
    (tmp_path / "a model" / "recipe.toml").write_text('task = "translate"')
    (tmp_path / ".hidden").mkdir()
    append(tmp_path / ".hidden", log(1))
    assert [run["name"] for run in Runs(tmp_path).all()] == ["new", "crossed/fold-0", "old"]
    assert asked(tmp_path, "/crossed/fold-0")[1]["run"]["step"] == 3


def test_of_many_runs_the_newest_are_told_and_how_many_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "MOST_RUNS", 3)
    names = [f"run-{number}" for number in random.Random(0).sample(range(2500), 2500)]
    for age, name in enumerate(names):
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.jsonl").touch()
        os.utime(tmp_path / name / "metrics.jsonl", (age, age))
    status, told = asked(tmp_path, "")
    assert status == 200 and told["older"] == 2497
    assert [run["name"] for run in told["runs"]] == names[:-4:-1]
    assert asked(tmp_path, f"/{names[0]}")[0] == 200, "one that is not listed can be watched"


@pytest.mark.timeout(20)
def test_a_recipe_that_takes_long_to_parse_is_not_parsed(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    (run / "recipe.toml").write_text("x." + ".".join("a" * 50_000) + " = 1\n")
    assert Runs(tmp_path).all()[0]["task"] == ""


def test_without_a_folder_there_are_no_runs(tmp_path: Path) -> None:
    assert asked(tmp_path / "nowhere", "") == (200, {"runs": [], "folder": {"name": "nowhere", "exists": False}})


def test_a_run_goes_on_as_long_as_its_lock_is_held_and_is_finished_when_it_has_a_model(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    held = hold(run / "lock")
    assert held and is_held(run / "lock") and Runs(tmp_path).all()[0]["state"] == "running"
    held.close()
    assert not is_held(run / "lock") and Runs(tmp_path).all()[0]["state"] == "stopped"
    (run / "model").mkdir()
    assert Runs(tmp_path).all()[0]["state"] == "finished"


def test_one_who_looks_does_not_keep_a_trainer_out(tmp_path: Path) -> None:
    from regard.training.checkpoints import Lock

    Lock(tmp_path).release()
    for _ in range(20):
        is_held(tmp_path / "lock")
        Lock(tmp_path).release()


@pytest.mark.parametrize(
    "name", ["..", "../secret", "fr-en/../../secret", "%2e%2e/secret", "fr-en/", "/etc", "\x00", ""]
)
def test_only_what_the_list_names_can_be_asked_for(name: str, tmp_path: Path) -> None:
    a_run(tmp_path / "runs")
    append(tmp_path / "secret", log(1))
    status, told = asked(tmp_path / "runs", f"/{name}")
    assert status == 404 and set(told) == {"error"}


def test_no_link_is_followed(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    secret = a_run(tmp_path, "secret")
    a_run(folder)
    (folder / "linked").symlink_to(secret)
    (folder / "inner").mkdir()
    for name in ("metrics.jsonl", "lock", "recipe.toml"):
        (folder / "inner" / name).symlink_to(secret / "metrics.jsonl")
    assert [run["name"] for run in Runs(folder).all()] == ["fr-en"]
    (folder / "inner" / "metrics.jsonl").unlink()
    append(folder / "inner", b"")
    (run,) = [run for run in Runs(folder).all() if run["name"] == "inner"]
    assert (run["task"], run["step"]) == ("", 0)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="has no pipes")
def test_a_pipe_is_no_file_and_nobody_waits_for_it(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    (run / "metrics.jsonl").unlink()
    (run / "recipe.toml").unlink()
    for name in ("metrics.jsonl", "recipe.toml"):
        os.mkfifo(run / name)
    (run / "lock").write_text("1\n")
    assert asked(tmp_path, "/fr-en")[1]["logs"] == []


# ----------------------------------------------------------------------------------------------- reading on and on


def test_a_growing_file_is_read_on_from_where_one_was(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    _, first = asked(tmp_path, "/fr-en")
    assert [line["step"] for line in first["logs"]] == [1, 2, 3] and first["logs"][1]["loss"] == 0.5
    append(run, validation(3), json.dumps(log(4)).encode())  # which is not whole: its line end is missing
    _, then = asked(tmp_path, "/fr-en", f"since={first['at']}&mark={first['mark']}")
    assert not then["logs"] and not then["anew"]
    assert then["validations"] == [
        {
            "step": 3, "time": 1000.5, "scores": {"bleu": 4.5, "loss": 2.0},
            "samples": [{"source": "un chat", "output": "cat 3", "reference": "a cat"}],
        }
    ]  # fmt: skip
    append(run, b"\n")
    _, last = asked(tmp_path, "/fr-en", f"since={then['at']}&mark={then['mark']}")
    assert [line["step"] for line in last["logs"]] == [4] and last["at"] == (run / "metrics.jsonl").stat().st_size


@pytest.mark.parametrize("after", [0, 50])
def test_a_file_that_was_written_anew_is_read_anew(after: int, tmp_path: Path) -> None:
    """A resumed run drops the lines of steps it takes again; it may have written more than before when it is seen."""
    from regard.training.progress import _truncate_after

    run = a_run(tmp_path, steps=20)
    first = read_on(run / "metrics.jsonl")
    _truncate_after(run / "metrics.jsonl", 10)
    append(run, *(log(step, time=9.0) for step in range(11, 11 + after)))
    then = read_on(run / "metrics.jsonl", first.at, first.mark)
    assert then.anew and [line["step"] for line in then.logs] == list(range(1, 11 + after))
    again = read_on(run / "metrics.jsonl", then.at, then.mark)
    assert not again.anew and not again.logs


def test_a_long_file_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.studio.metric_lines.AT_ONCE", 10_000)
    run = a_run(tmp_path, steps=500)
    size, at, mark, seen, more = (run / "metrics.jsonl").stat().st_size, 0, "", [], True
    while more:
        part = read_on(run / "metrics.jsonl", at, mark)
        assert part.at - at <= 10_000 and not part.anew
        at, mark, more = part.at, part.mark, part.more
        seen += [line["step"] for line in part.logs]
    assert seen == list(range(1, 501)) and at == size > 30_000


def test_answers_are_bounded_whatever_the_file_is(tmp_path: Path) -> None:
    layers = {f"encoder.layers.{layer}": 0.5 for layer in range(12)}
    append(tmp_path / "run", *(log(step, layers=layers) for step in range(1, 10_001)))
    append(tmp_path / "run", *(validation(step, note="x" * 5000) for step in range(1, 1001)))
    app = app_with_middleware(Settings(), catalogue(), FakePool(), [router(tmp_path)], log_requests=False)
    reply = call(app, "GET", "/studio/runs/run")
    told = reply.json()
    assert len(reply.body) < 2 * MOST_BYTES < 2**21 < (tmp_path / "run" / "metrics.jsonl").stat().st_size
    for kind, last in (("logs", 10_000), ("validations", 1000)):
        steps = [line["step"] for line in told[kind]]
        assert 50 < len(steps) <= MOST_LINES and steps[-1] == last
        assert len({after - before for before, after in zip(steps, steps[1:])}) == 1, "evenly"


def test_a_long_file_is_thinned_alike_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.studio.metric_lines.AT_ONCE", 100_000)
    monkeypatch.setattr("regard.studio.metric_lines.MOST_LINES", 100)
    run = a_run(tmp_path, steps=1500)
    _, first = asked(tmp_path, "/fr-en")
    assert first["more"] and first["every"] > 1
    query = f"since={first['at']}&mark={first['mark']}"
    _, rest = asked(tmp_path, "/fr-en", f"{query}&every={first['every']}")
    assert not rest["more"] and rest["at"] == (run / "metrics.jsonl").stat().st_size
    for part in (first, rest):
        steps = [line["step"] for line in part["logs"]]
        assert {after - before for before, after in zip(steps, steps[1:])} == {first["every"]}


def test_many_short_lines_are_thinned_and_the_last_is_kept(tmp_path: Path) -> None:
    append(tmp_path / "run", *({"step": step} for step in range(1, 10_001)))
    steps = [line["step"] for line in read_on(tmp_path / "run" / "metrics.jsonl").logs]
    assert len(steps) <= MOST_LINES and steps[-1] == 10_000 and {b - a for a, b in zip(steps, steps[1:])} == {5}


# ------------------------------------------------------------------------------------------- what is not believed


@pytest.mark.parametrize(
    "line",
    [
        b"", b"{", b"[]", b"7", b'"step"', b"[" * 100_000, b'{"loss": 1}', b'{"step": "1"}', b'{"step": -1}',
        b'{"step": true}', b'{"step": 1e3}', b'{"step": ' + b"9" * 5000 + b"}", b"\xff\xfe", b'{"step": NaN}',
    ],
)  # fmt: skip
def test_lines_that_are_none(line: bytes, tmp_path: Path) -> None:
    assert checked(line) is None
    append(tmp_path / "run", log(1), line + b"\n", log(2))
    status, told = asked(tmp_path, "/run")
    assert status == 200 and [found["step"] for found in told["logs"]] == [1, 2]


def test_values_that_are_none_are_left_out_and_texts_stay_texts(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>\ud800"
    odd = {"loss": "low", "norm": 1e999, "learning_rate": True, "unknown": 1, "layers": {"a": [], "b" * 500: 0.5}}
    append(tmp_path / "run", log(1, **odd))
    samples = [{"source": hostile, "output": 7}, "no sample", {}]
    append(tmp_path / "run", validation(2, valid_bleu=None, samples=samples * 50))
    _, told = asked(tmp_path, "/run")
    assert told["logs"] == [
        {
            "step": 1, "time": 1001.5, "loss": None, "learning_rate": None, "norm": None,
            "layers": {"a": None, "b" * 100: 0.5},
        }
    ]  # fmt: skip
    (found,) = told["validations"]
    assert found["scores"] == {"bleu": None, "loss": 2.0} and len(found["samples"]) <= 32
    assert found["samples"][0] == {"source": "<script>alert(1)</script>?", "output": "", "reference": ""}


def test_a_line_without_end_is_stepped_over(tmp_path: Path) -> None:
    append(tmp_path / "run", b"x" * (AT_ONCE + 10), b"\n", log(7))
    first = read_on(tmp_path / "run" / "metrics.jsonl")
    assert not first.logs and first.at == AT_ONCE and first.more
    assert [line["step"] for line in read_on(tmp_path / "run" / "metrics.jsonl", first.at, first.mark).logs] == [7]


@pytest.mark.parametrize("query", ["since=-1", "since=x", "since=99999999999999999999", "every=0", f"mark={'x' * 50}"])
def test_questions_that_make_no_sense_are_refused(query: str, tmp_path: Path) -> None:
    a_run(tmp_path)
    assert asked(tmp_path, "/fr-en", query)[0] == 400


def test_nothing_here_needs_torch() -> None:
    code = "import sys, regard.studio.run_routes; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
