"""Time series: scaling and its inverse, and tables with every kind of gap."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from regard.data.input import series
from regard.data.input.series import Series, read_table
from regard.errors import UserError


def written(folder: Path, text: str, name: str = "a.csv") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


# Numbers


def test_training_series_have_mean_0_and_spread_1_over_all_their_steps() -> None:
    random = np.random.default_rng(0)
    raws = [(random.standard_normal((n, 3)) * [1, 50, 0.01] + [0, 1e4, -3]).astype(np.float32) for n in (5, 40, 17)]
    made = Series.fit(raws, seed=1)
    assert made.sizes() == {"features": 3}
    steps = np.concatenate([made.encode(raw) for raw in raws])
    assert steps.dtype == np.float32
    np.testing.assert_allclose(steps.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(steps.std(0), 1, atol=1e-5)
    for raw in raws:
        np.testing.assert_allclose(made.decode(made.encode(raw)), raw, rtol=1e-6, atol=1e-6)


def test_encoding_is_the_formula() -> None:
    made = Series([10.0, -1.0], [2.0, 0.5])
    assert made.encode(np.array([[12, -1], [6, 0]], np.float32)).tolist() == [[1, 0], [-2, 2]]
    assert made.decode(np.array([[[1, 0]], [[-2, 2]]], np.float32)).tolist() == [[[12, -1]], [[6, 0]]]


def test_a_feature_that_never_changes_stays_finite() -> None:
    raw = np.array([[0.1, 1e8], [0.1, 1e8], [0.1, 1e8]], np.float32)
    made = Series.fit([raw], seed=1)
    assert made.encode(raw).tolist() == [[0, 0]] * 3
    assert np.abs(made.encode(raw + 1)).max() < 10


def test_a_saved_input_comes_back_exactly() -> None:
    made = Series.fit(
        [np.random.default_rng(0).standard_normal((9, 3)).astype(np.float32)], seed=1, columns=["a", "ü", "c"]
    )
    again = Series.from_files(made.files())
    assert again.columns == ["a", "ü", "c"]
    np.testing.assert_array_equal(again.mean, made.mean)
    np.testing.assert_array_equal(again.spread, made.spread)


@pytest.mark.parametrize(
    "change",
    [
        {"mean": [0.0]},
        {"spread": [1.0, 0.0]},
        {"mean": [0.0, "1"]},
        {"columns": ["a"]},
        {"columns": [1, 2]},
        {"mean": 5},
    ],
)
def test_a_damaged_one_is_refused(change: dict[str, object]) -> None:
    good = json.loads(Series([0.0, 1.0], [1.0, 1.0]).files()["input.json"])
    Series.from_files({"input.json": json.dumps(good).encode()})
    with pytest.raises(UserError, match="does not describe series"):
        Series.from_files({"input.json": json.dumps(good | change).encode()})


def test_series_that_do_not_belong_together_are_refused() -> None:
    one, other = np.zeros((3, 2), np.float32), np.zeros((3, 4), np.float32)
    with pytest.raises(UserError, match="series 2 has 4 features, but the first has 2"):
        Series.fit([one, other], seed=1)
    with pytest.raises(UserError, match="1 names for 2 features"):
        Series.fit([one], seed=1, columns=["a"])
    with pytest.raises(UserError, match="no steps"):
        Series.fit([one[:0]], seed=1)
    with pytest.raises(UserError, match="no key 'colums'; did you mean 'columns'"):
        Series.fit([one], seed=1, colums=["a", "b"])
    with pytest.raises(UserError, match="steps of 2 numbers"):
        Series.fit([one], seed=1).encode(other)


# Tables


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
@pytest.mark.parametrize(
    ("text", "columns", "values", "times"),
    [
        ("a,b\n1,2\n3,4.5\n", ["a", "b"], [[1, 2], [3, 4.5]], []),
        (
            '"Month","Passengers"\r\n"1949-01",112\r\n"1949-02",118',
            ["Passengers"],
            [[112], [118]],
            ["1949-01", "1949-02"],
        ),
        ("date,OT\n2016-07-01 00:00:00,30.5\n\n", ["OT"], [[30.5]], ["2016-07-01 00:00:00"]),
        ("when,x\n01/02/2020, -1e3 \n", ["x"], [[-1000]], ["01/02/2020"]),
        ("Year,x\n1949,5\n", ["x"], [[5]], ["1949"]),
        ("clock,x\n12:30,5\n", ["x"], [[5]], ["12:30"]),
        ("\ufeffa, b\n1,2\n", ["a", "b"], [[1, 2]], []),
    ],
)
def test_tables_that_are_read(tmp_path: Path, name: str, text: str, columns: list, values: list, times: list) -> None:
    table = read_table(written(tmp_path, text, name))
    assert table.columns == columns and table.values.tolist() == values and table.times == times
    assert table.values.dtype == np.float32


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("\n1,2\n", "is empty, or its first line is"),
        ("a,b\n", "has no rows"),
        ("1,2\n3,4\n", "line 1: only numbers; the first line must name the columns"),
        ("a,b\n1,2\n3\n", "line 3: has 1 cells, but the first line names 2 columns"),
        ("a,b\n1,2\n3,4,5\n", "line 3: has 3 cells"),
        ("a,b\n1,\n", "line 2, column 'b': nothing is there"),
        ("a,b\n1,2\nNaN,2\n", "line 3, column 'a': nothing is there"),
        ("a,b\n1,inf\n", "line 2, column 'b': nothing is there"),
        ("a\n1\n\n2\n", "line 3: is blank, and lines with numbers follow"),
        ("a,b\n1,two\n", "line 2, column 'b': 'two' is no number"),
        ("a,b\n1,1_0\n", "'1_0' is no number"),
        ("a,b\n1," + "x" * 500 + "\n", "…' is no number"),
        ("a,a\n1,2\n", "two columns are called 'a'"),
        ("date\n2020-01-01\n", "no column of numbers beside 'date'; separate columns by commas"),
        ("a;b\n1;2\n", "'1;2' is no number"),
        ("a,b\n1,1e39\n", "row 1, column 'b': too large"),
        ('a,b\n1,"' + "x" * 200_000 + '"\n', "is not CSV"),
    ],
)
def test_tables_that_are_refused_by_line_and_column(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UserError) as error:
        read_table(path)
    assert said in str(error.value) and str(path) in str(error.value) and "\n" not in str(error.value)


def test_limits_hold_before_memory_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def said(text: str, name: str = "a.csv") -> str:
        with pytest.raises(UserError) as error:
            read_table(written(tmp_path, text, name))
        return str(error.value)

    monkeypatch.setattr(series, "ROWS", 3)
    assert "more than 3 rows" in said("a\n" + "1\n" * 4)
    assert len(read_table(written(tmp_path, "a\n" + "1\n" * 3)).values) == 3
    monkeypatch.setattr(series, "COLUMNS", 2)
    assert "has 3 columns; 2 are the most" in said("a,b,c\n1,2,3\n")
    monkeypatch.setattr(series, "ROWS", 10_000)
    monkeypatch.setattr(series, "UNPACKED", 1000)
    assert "unpacks to more than" in said("a\n" + "1\n" * 1000, "a.csv.gz")
    monkeypatch.setattr(series, "BYTES", 1000)
    assert "are the most" in said("a\n" + "1\n" * 1000)


def test_what_is_no_text_or_cut_off_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,b\n1,\xff\n")
    with pytest.raises(UserError, match="line 2: is not text in UTF-8"):
        read_table(path)
    packed = tmp_path / "a.csv.gz"
    packed.write_bytes(gzip.compress(b"a,b\n1,2\n" * 1000)[:-12])
    with pytest.raises(UserError, match="a.csv.gz: cannot be read"):
        read_table(packed)
    with pytest.raises(UserError, match="did you mean 'a.csv'"):
        read_table(tmp_path / "b.csv")


def test_columns_are_found_by_name(tmp_path: Path) -> None:
    path = written(tmp_path, "date,c,a,b\n2020-01-01,3,1,2\n")
    notes: list[str] = []
    named = Series([0.0, 0.0], [1.0, 1.0], ["a", "c"])
    assert named.read(str(path), notes.append).tolist() == [[1, 3]]
    assert notes == [f"{path}: not read: b"]
    with pytest.raises(UserError, match="has no column 'd'"):
        Series([0.0], [1.0], ["d"]).read(str(path))
    assert Series([0.0] * 3, [1.0] * 3).read(str(path)).tolist() == [[3, 1, 2]]
    with pytest.raises(UserError, match="has 3 columns of numbers, but the model reads 2"):
        Series([0.0] * 2, [1.0] * 2).read(str(path))
