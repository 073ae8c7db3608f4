"""Time series in tables: splits by time, windows, and future timestamps."""

import gzip

import numpy as np
import pytest

from regard.config import Data
from regard.data.examples import Coded
from regard.data.format._base import Example
from regard.data.format._series import Span
from regard.data.format.made_series import MadeSeries
from regard.data.format.table import Table
from regard.data.input.series import Series
from regard.data.splitting import make_format
from regard.data.target.future import Future, Windows
from regard.data.timestamps import next_timestamps
from regard.errors import UserError


@pytest.fixture
def file(tmp_path):
    """Twenty rows: n and 100 + n."""
    path = tmp_path / "series.csv"
    path.write_text("date,level,flow\n" + "".join(f"2020-01-{n + 1:02},{n},{100 + n}\n" for n in range(20)))
    return path


def rows(example):
    """Which rows may be wanted."""
    return example.input[example.target.begin :, 0].tolist()


def test_borders_in_rows(file):
    form = Table(borders=[10, 4, 3])
    parts = {part: form.read([file], part)[0] for part in ("train", "valid", "test")}
    assert {part: rows(one) for part, one in parts.items()} == {
        "train": [*range(10)],
        "valid": [*range(10, 14)],
        "test": [*range(14, 17)],
    }
    for one in parts.values():  # all before it is there to be looked at, nothing after it
        assert one.input[:, 0].tolist() == [*range(len(one.input))] and one.input.dtype == np.float32
        assert one.target.columns == ("level", "flow")


def test_borders_in_shares_are_the_default(file):
    assert [len(rows(Table().read([file], part)[0])) for part in ("train", "valid", "test")] == [14, 2, 4]
    assert [len(rows(Table(borders=[0.5, 0.25, 0.25]).read([file], part)[0])) for part in ("train", "test")] == [10, 5]


def test_without_borders_a_file_is_whole(file):
    for part in ("train", "valid", "test"):
        assert rows(Table(borders=[]).read([file], part)[0]) == [*range(20)]


def test_an_empty_part_is_none(file):
    assert Table(borders=[10, 0, 10]).read([file], "valid") == []


def test_columns_are_chosen_and_put_in_order(file):
    one = Table(columns=["flow", "level"]).read([file], "train")[0]
    assert one.input[3].tolist() == [103, 3] and one.target.columns == ("flow", "level")
    assert Table(columns=["flow"]).read([file], "train")[0].input.shape == (14, 1)


def test_packed(file, tmp_path):
    packed = tmp_path / "series.csv.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert np.array_equal(Table().read([packed], "test")[0].input, Table().read([file], "test")[0].input)


def test_what_cannot_be_cut_is_refused_in_words(file, tmp_path):
    other = tmp_path / "other.csv"
    other.write_text("date,level\n2020-01-01,1\n2020-01-02,2\n")
    for form, files, message in [
        (lambda: Table(borders=[10, 10, 10]), [file], "has 20 rows, but data.format.borders asks for 30"),
        (lambda: Table(columns=["lefel"]), [file], "no column 'lefel'; did you mean 'level'"),
        (lambda: Table(borders=[]), [file, other], "has other columns than"),
        (lambda: Table(borders=[1, 2]), [], "wants three sizes"),
        (lambda: Table(borders=["a", 1, 2]), [], "wants three sizes"),
        (lambda: Table(borders=[-1, 2, 3]), [], "wants three sizes"),
        (lambda: Table(borders=[2.5, 4, 4]), [], "wants whole rows"),
        (lambda: Table(borders=[0.7, 0.3, 0.3]), [], "the shares make 1.3"),
    ]:
        with pytest.raises(UserError, match=message):
            form().read(files, "train")


def test_a_recipe_can_say_it(file):
    form = make_format(Data(format={"kind": "table", "borders": [10, 4, 3], "columns": ["flow"]}))
    assert form.read([file], "test")[0].target.begin == 14


# ------------------------------------------------------------------------------------------------------------- made


def test_made_parts_differ_and_are_the_same_every_time():
    form = MadeSeries(count=2, steps=50, columns=3)
    train, again, test = form.read([], "train"), form.read([], "train"), form.read([], "test")
    assert len(train) == 2 and train[0].input.shape == (50, 3) and train[0].input.dtype == np.float32
    assert len(train[0].target.columns) == 3
    assert np.array_equal(train[1].input, again[1].input)
    assert not np.array_equal(train[0].input, test[0].input) and not np.array_equal(train[0].input, train[1].input)


def test_made_without_noise_and_trend_it_repeats():
    one = MadeSeries(count=1, steps=150, noise=0.0, trend=0.0).read([], "train")[0].input
    np.testing.assert_allclose(one[60:], one[:-60], atol=1e-5)  # 60 is five times 12 and twice 30
    assert np.abs(one[30:] - one[:-30]).max() > 0.1


def test_made_too_much_is_refused():
    with pytest.raises(UserError, match="100 million"):
        MadeSeries(count=1000, steps=1_000_000)


# ---------------------------------------------------------------------------------------------------------- windows


def whole(length, begin=0):
    values = np.arange(length, dtype=np.float32)[:, None]
    return Coded(values, values, np.arange(length) >= begin)


def seen(one):
    return one.source[:, 0].tolist(), one.target[:, 0].tolist()


def test_every_place_is_a_window_once():
    windows = Windows([whole(7)], window=3, horizon=2)
    assert [seen(one) for one in windows] == [
        ([0, 1, 2], [3, 4]),
        ([1, 2, 3], [4, 5]),
        ([2, 3, 4], [5, 6]),
    ]
    assert windows[0].target_mask.tolist() == [True, True]


def test_the_first_forecast_begins_at_the_border():
    windows = Windows([whole(9, begin=6)], window=3, horizon=2)
    assert [seen(one) for one in windows] == [([3, 4, 5], [6, 7]), ([4, 5, 6], [7, 8])]


def test_as_many_windows_of_ett_as_everybody_has():
    """12, 4 and 4 months of 30 days; a look back of two weeks, four days ahead."""
    for length, begin, count in ((8640, 0, 8209), (11520, 8640, 2785), (14400, 11520, 2785)):
        assert len(Windows([whole(length, begin)], window=336, horizon=96)) == count


def test_windows_of_several_series_do_not_reach_into_each_other():
    short = whole(4)
    windows = Windows([whole(6), short, whole(5), whole(6, begin=5)], window=3, horizon=2)
    assert len(windows) == 2 + 0 + 1 + 0
    assert [seen(one) for one in windows] == [([0, 1, 2], [3, 4]), ([1, 2, 3], [4, 5]), ([0, 1, 2], [3, 4])]
    for index in (-1, 3):
        with pytest.raises(IndexError):
            windows[index]
    assert len(Windows([], 3, 2)) == 0


def test_windows_are_views():
    one = whole(100)
    assert np.shares_memory(Windows([one], 30, 10)[5].source, one.source)


# ----------------------------------------------------------------------------------------------------------- future


def test_what_is_wanted_is_the_series_itself_scaled():
    values = np.array([[0.0], [2.0], [4.0], [6.0]], dtype=np.float32)
    examples = [Example(values, Span(2, ("a",)))]
    scale, future = Series([2.0], [4.0]), Future.fit(examples, seed=1)
    target, wanted = future.encode(examples[0], scale)
    assert target[:, 0].tolist() == [-0.5, 0.0, 0.5, 1.0] and wanted.tolist() == [False, False, True, True]
    assert future.steps.tolist() == [2.0]


def test_the_band_holds_four_of_five():
    """Errors 1 to 9, either way: the 8th of 9 stands at 8 / 10."""
    errors = np.array([1, -2, 3, -4, 5, -6, 7, -8, 9], dtype=np.float32)[:, None, None] * np.array([[1.0, 10.0]])
    future = Future([1.0, 1.0])
    future.learn(errors)
    np.testing.assert_allclose(future.band, [[8.0, 80.0]])


def test_saved_and_read_back_exactly():
    future = Future([0.1, 1 / 3], np.array([[0.2, 0.3], [1 / 7, 0.5]]))
    again = Future.from_files(future.files())
    assert np.array_equal(again.steps, future.steps) and np.array_equal(again.band, future.band)
    assert Future.from_files(Future([0.1]).files()).band is None


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b'{"steps": [1.0], "band": [[1.0, 2.0]]}', b'{"steps": ["x"], "band": []}',
             b'{"steps": [1.0], "band": [[NaN]]}', b'{"steps": [1.0], "band": "x"}', b'{"steps": [1.0], "band": {"a": 1}}']
)  # fmt: skip
def test_damaged_files_are_refused(text):
    with pytest.raises(UserError, match="damaged"):
        Future.from_files({"target.json": text})


def test_nothing_to_forecast():
    with pytest.raises(UserError, match="two rows"):
        Future.fit([Example(np.zeros((1, 1), np.float32), Span(0, ("a",)))], seed=1)


# ------------------------------------------------------------------------------------------------------------ times


@pytest.mark.parametrize(
    ("times", "after"),
    [
        (["2020-02-27", "2020-02-28", "2020-02-29"], ["2020-03-01", "2020-03-02"]),
        (
            ["2016-07-01 21:00:00", "2016-07-01 22:00:00", "2016-07-01 23:00:00"],
            ["2016-07-02 00:00:00", "2016-07-02 01:00:00"],
        ),
        (["1960-10", "1960-11", "1960-12"], ["1961-01", "1961-02"]),
        (["2020-01-31", "2020-03-31", "2020-05-31"], ["2020-07-31", None]),
        (["1998", "1999", "2000"], ["2001", "2002"]),
        (["2020-01-06", "2020-01-13", "2020-01-20"], ["2020-01-27", "2020-02-03"]),
        (["2020-01-01T00:00", "2020-01-01T00:15", "2020-01-01T00:30"], ["2020-01-01T00:45", "2020-01-01T01:00"]),
    ],
)
def test_times_go_on(times, after):
    known = [time for time in after if time]
    assert next_timestamps(times, len(known)) == known
    if None in after:  # there is no 31st of September
        assert next_timestamps(times, 2) is None


@pytest.mark.parametrize(
    "times",
    [[], ["2020-01-01"], ["2020-01-01", "2020-01-02", "2020-01-04"], ["a", "b", "c"], ["01/02/2020"] * 3,
     ["2020-01-03", "2020-01-02", "2020-01-01"], ["2020-01-01"] * 3, ["9997", "9998", "9999"]],
)  # fmt: skip
def test_times_that_do_not_go_on(times):
    assert next_timestamps(times, 2) is None
