"""`regard forecast`: table, JSON, CSV or drawing; mistakes in one line."""

from __future__ import annotations

import csv
import io
import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch


@pytest.fixture
def run_forecast(run_regard):
    return partial(run_regard, "forecast")


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """Looks at three rows and says the last one again, half a spread higher, for two steps."""
    from regard.assemble import build_model, resolve_model
    from regard.config import Recipe
    from regard.data.codec import Pair
    from regard.data.input.series import Series
    from regard.data.target.future import Future
    from regard.loading import model_files
    from regard.storage import write_folder

    shape = resolve_model(
        {"kind": "forecaster", "stem": "features", "encoder": "none", "window": 3, "horizon": 2, "width": 4}
    )
    built = build_model(shape, features=2)
    torch.nn.init.zeros_(built.head.weight)
    torch.nn.init.constant_(built.head.bias, 0.5)
    codec = Pair(
        Series([10.0, 0.0], [2.0, 1.0], ["heat", "wind"]), Future([1.0, 1.0], np.array([[0.5, 1.0], [1.0, 2.0]]))
    )
    weights = {name: weight.detach() for name, weight in built.named_parameters()}
    folder = tmp_path_factory.mktemp("models") / "copier"
    write_folder(folder, model_files(Recipe(task="forecast", model=shape), codec, weights, "float32"))
    return folder


@pytest.fixture
def file(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = Path("days.csv")
    path.write_text("date,heat,wind\n2020-02-26,7,1\n2020-02-27,8,2\n2020-02-28,9,3\n2020-02-29,10,4\n")
    return path


def test_a_table_with_dates_and_bands(model, file, run_forecast):
    out, err = run_forecast(model, file)
    assert [line.split() for line in out.splitlines()] == [
        ["time", "heat", "heat", "low", "heat", "high", "wind", "wind", "low", "wind", "high"],
        ["2020-03-01", "11", "10", "12", "4.5", "3.5", "5.5"],
        ["2020-03-02", "11", "9", "13", "4.5", "2.5", "6.5"],
    ]
    assert err == ""


def test_further_than_trained_is_said_and_has_no_band(model, file, run_forecast):
    out, err = run_forecast(model, file, "--horizon", "3")
    assert out.splitlines()[-1].split() == ["2020-03-03", "12", "-", "-", "5", "-", "-"]
    assert err == ("regard: the model was trained to forecast 2 steps; further ones follow from its own forecasts\n")
    assert run_forecast(model, file, "--horizon", "3", "--quiet") == (out, "")
    assert len(run_forecast(model, file, "--horizon", "1")[0].splitlines()) == 2


def test_json_and_csv(model, file, run_forecast):
    found = json.loads(run_forecast(model, file, "--horizon", "3", "--format", "json", "-q")[0])
    assert found["time"] == ["2020-03-01", "2020-03-02", "2020-03-03"]
    assert found["forecasts"]["wind"] == {"value": [4.5, 4.5, 5.0], "low": [3.5, 2.5, None], "high": [5.5, 6.5, None]}
    rows = list(csv.reader(io.StringIO(run_forecast(model, file, "--horizon", "3", "--format", "csv", "-q")[0])))
    assert rows[0] == ["time", "heat", "heat low", "heat high", "wind", "wind low", "wind high"]
    assert rows[3] == ["2020-03-03", "12", "", "", "5", "", ""]


def test_steps_are_counted_where_there_are_no_dates_or_they_jump(model, file, run_forecast):
    bare = Path("bare.csv")
    bare.write_text("wind,heat\n1,7\n2,8\n3,9\n")  # the order of columns is the file's own
    out, err = run_forecast(model, bare)
    assert [line.split()[:2] for line in out.splitlines()] == [["step", "heat"], ["1", "10"], ["2", "10"]] and not err
    assert json.loads(run_forecast(model, bare, "--format", "json")[0])["step"] == [1, 2]
    file.write_text(file.read_text().replace("2020-02-28", "2020-02-20"))
    out, err = run_forecast(model, file)
    assert out.splitlines()[1].startswith("1 ") and "steps are counted" in err and err.count("\n") == 1


def test_a_drawing(model, file, run_forecast):
    for name, begin in (("plot.svg", b"<?xml"), ("plot.png", b"\x89PNG")):
        out, _ = run_forecast(model, file, "--horizon", "3", "-o", name, "-q")
        assert out.startswith("time") and Path(name).read_bytes().startswith(begin)
    first = Path("plot.svg").read_bytes()
    run_forecast(model, file, "--horizon", "3", "-o", "plot.svg", "-q")
    assert Path("plot.svg").read_bytes() == first
    assert not list(Path().glob(".*"))


@pytest.mark.parametrize(
    ("content", "words", "message"),
    [
        (
            "date,heat,wind\n2020-02-26,7,1\n2020-02-27,,2\n2020-02-28,9,3\n",
            [],
            "days.csv, line 3, column 'heat': nothing is there",
        ),
        ("heat,wind\n7,1\n8,2\n", [], "days.csv: 2 rows are too few; the model looks at the last 3"),
        ("heat,wint\n7,1\n8,2\n9,3\n", [], "days.csv: has no column 'wind'; did you mean 'wint'?"),
        ("heat\n7\n8\n9\n", [], "days.csv: has no column 'wind'"),
        ("heat,wind\n7,1\n8,2\n9,3\n", ["-o", "plot.pdf"], "plot.pdf: drawings are .svg or .png"),
        ("heat,wind\n7,1\n8,2\n9,3\n", ["--horizon", "1000000"], "a horizon of 1000000 steps"),
        ("heat,wind\n7,1\n8,2\n9,3\n", ["-o", "days.csv/plot.svg"], "cannot write days.csv/plot.svg"),
    ],
)
def test_one_line_for_a_mistake(model, file, run_forecast, content, words, message):
    file.write_text(content)
    out, err = run_forecast(model, file, *words, code=2)
    assert not out and message in err and err.count("\n") == 1 and err.startswith("regard: ")


def test_a_file_that_is_not_there_and_a_model_for_something_else(model, file, run_forecast):
    assert "none.csv" in run_forecast(model, "none.csv", code=2)[1]
    assert "this model is made to translate, not to forecast" in run_forecast("fr-en", file, code=2)[1]


def test_other_columns_are_left_alone_and_named(model, file, run_forecast):
    file.write_text("rain,heat,wind\n0,7,1\n0,8,2\n0,9,3\n")
    out, err = run_forecast(model, file)
    assert "rain" not in out and err == "regard: days.csv: not read: rain\n"
