"""Splits of a data set: disjoint, and always the same."""

import pytest

from regard.config import Data
from regard.data.splitting import read_parts
from regard.errors import UserError


@pytest.fixture
def lines(tmp_path):
    """Two files of reviews, one for each class, each line its own."""
    for name in ("good", "bad"):
        (tmp_path / f"{name}.txt").write_text("".join(f"{name} {i}\n" for i in range(50)))
    return [str(tmp_path / "good.txt"), str(tmp_path / "bad.txt")]


def texts(part):
    return [example.input for example in part]


def data(lines, **options):
    return Data(train=lines, format={"kind": "labelled_lines"}, **options)


def test_a_tenth_is_held_out_to_validate(lines):
    parts = read_parts(data(lines))
    assert (len(parts.train), len(parts.valid), len(parts.test)) == (90, 10, 0)
    assert not set(texts(parts.train)) & set(texts(parts.valid))
    assert texts(read_parts(data(lines)).valid) == texts(parts.valid)


def test_folds_cover_everything_once(lines):
    tested = []
    for fold in range(7):
        parts = read_parts(data(lines, folds=7, fold=fold))
        assert not {*texts(parts.train), *texts(parts.valid)} & {*texts(parts.test)}
        assert len(parts.train) + len(parts.valid) + len(parts.test) == 100
        tested += texts(parts.test)
    assert len(tested) == len(set(tested)) == 100


def test_test_examples_are_held_out_on_request(lines):
    parts = read_parts(data(lines, hold_out_test=20, hold_out_valid=5))
    assert (len(parts.train), len(parts.valid), len(parts.test)) == (75, 5, 20)
    assert len({*texts(parts.train), *texts(parts.valid), *texts(parts.test)}) == 100


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"folds": 5, "fold": 5}, "data.fold: no fold 5 of 5 folds; use 0 to 4"),
        ({"hold_out_valid": 100}, "100 examples cannot be held out of 100"),
        ({"format": {}}, "data.format.kind: say which format the files have"),
        ({"format": {"kind": "labeled_lines"}}, "did you mean 'labelled_lines'"),
        ({"format": {"kind": "labelled_lines", "labls": []}}, "takes no 'labls'"),
        ({"train": ["nowhere.txt"]}, "nowhere.txt does not exist"),
    ],
)
def test_mistakes_are_one_line(lines, options, line):
    with pytest.raises(UserError, match=line):
        read_parts(Data(**{"train": lines, "format": {"kind": "labelled_lines"}, **options}))


def test_a_format_that_makes_its_own_needs_no_files():
    parts = read_parts(Data(format={"kind": "made_reviews", "count": 40}))
    assert (len(parts.train), len(parts.valid), len(parts.test)) == (40, 20, 20)
    assert texts(parts.valid) != texts(parts.test)
