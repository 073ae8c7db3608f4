"""The lab's report of a minimal experiment: files, text, page, figure, listing."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path

import matplotlib
import pytest

from regard import registry
from regard.errors import UserError
from regard.lab import _listing
from regard.lab._drawing import PALETTE, _apart, label_ends, panels, styled
from regard.lab._experiment import Experiment, Setting, Verdict
from regard.lab._report import Record, index, measure, page, read, text, write, write_index, write_page
from regard.lab._source import place


class Counting(Experiment):
    claim = "Later numbers are larger."
    lecture = "F0"
    threshold = "The last of 4 numbers is above 3."
    code = ("regard.lab._report.Record.json", "regard.lab._source.place")

    def run(self, size, setting):
        setting.progress(1, 1, "counting")
        return {"size": size, "values": (1, 2, 3, setting.seed + 3), 5: "five", "nested": [[1, 2], ["a [1]", "b"]]}

    def table(self, numbers):
        return [["step", "value", "note"], *([f"t{i}", f"{v}", "a|b"] for i, v in enumerate(numbers["values"]))]

    def verdict(self, numbers):
        return Verdict(numbers["values"][-1] > 3, f"the last number is {numbers['values'][-1]}")

    def figure(self, numbers):
        figure, (axes,) = panels()
        axes.plot(numbers["values"], color=PALETTE[0])
        label_ends(axes, [(numbers["values"][-1], "ours", PALETTE[0])])
        return figure


@pytest.fixture
def record() -> Record:
    return measure(Counting(), "counting", "tiny", Setting(seed=7))


def test_a_record_says_how_to_measure_it_again(record):
    assert record.command == "regard lab counting --size tiny --seed 7"
    assert (record.experiment, record.size, record.seed) == ("counting", "tiny", 7)
    assert record.device.startswith("CPU") and set(record.versions) == {"regard", "torch"} and record.seconds >= 0
    assert record.numbers["values"] == [1, 2, 3, 10], "a tuple is what JSON makes of it, from the beginning"
    assert record.numbers["5"] == "five"


def test_files_come_back_as_they_were(record, tmp_path):
    files = write(Counting(), record, tmp_path / "new" / "folder")
    assert [path.name for path in files] == ["counting.json", "counting.svg", "counting.png"]
    assert sorted(tmp_path.rglob("*.*")) == sorted(files), "and nothing else is left"
    assert read(files[0], "counting") == record
    assert "\n  [ 1, 2, 3, 10 ]" not in files[0].read_text() and '"values": [ 1, 2, 3, 10 ],' in files[0].read_text()
    assert files[1].read_bytes().startswith(b"<?xml") and files[2].read_bytes().startswith(b"\x89PNG")


def test_numbers_that_json_cannot_hold_are_refused(record, tmp_path):
    with pytest.raises(ValueError):
        write(Counting(), replace(record, numbers=record.numbers | {"bad": float("nan")}), tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read"),
        ("{", "is not JSON"),
        ("[1]", "holds no numbers"),
        ('{"experiment": "counting"}', "holds no numbers"),
        ("OTHER", "the numbers of 'other', not of 'counting'"),
    ],
)
def test_a_file_that_is_not_its_own_is_refused(content, message, record, tmp_path):
    path = tmp_path / "numbers.json"
    if content is not None:
        path.write_text(replace(record, experiment="other").json() if content == "OTHER" else content)
    with pytest.raises(UserError, match=message):
        read(path, "counting")


def test_a_figure_does_not_depend_on_its_users_settings(record, tmp_path):
    plain = [path.read_bytes() for path in write(Counting(), record, tmp_path)]
    before = dict(matplotlib.rcParams)
    theirs = {"lines.linewidth": 9, "font.size": 30, "svg.hashsalt": "other", "xtick.major.size": 30}
    with matplotlib.rc_context(theirs):
        assert [path.read_bytes() for path in write(Counting(), record, tmp_path)] == plain
        assert matplotlib.rcParams["lines.linewidth"] == 9, "its user's settings are put back"
    assert dict(matplotlib.rcParams) == before
    svg = plain[1].decode()
    assert "<dc:date>" not in svg and "Matplotlib" not in svg


def test_text_is_aligned_and_says_where_it_is_computed(record):
    lines = text(Counting(), record.numbers).split("\n")
    assert lines[0] == "Later numbers are larger. (F0)"
    assert lines[2:8] == [
        "step  value  note",
        "----  -----  ----",
        "t0        1  a|b",
        "t1        2  a|b",
        "t2        3  a|b",
        "t3       10  a|b",
    ]
    assert lines[9:11] == ["held: the last number is 10", "rule: The last of 4 numbers is above 3."]
    found = place("regard.lab._report.Record.json")
    assert f"  regard/lab/_report.py:{found.line}  Record.json" in lines
    assert text(Counting(), {"values": [3, 2, 1]}).count("\ndid not hold: the last number is 1\n") == 1


def test_a_page_has_all_of_it_and_no_line_numbers(record, tmp_path):
    files = write_page(Counting(), record, tmp_path)
    assert [path.name for path in files] == ["counting.md", "counting.svg", "counting.json"]
    written = files[0].read_text()
    assert written == page(Counting(), read(files[2], "counting"))
    for part in (
        "# Counting\n",
        "*Later numbers are larger.*",
        "**It held:** the last number is 10.",
        '<img src="counting.svg"',
        "| step | value | note |\n| --- | ---: | --- |\n| t0 | 1 | a\\|b |",
        "fixed before this run: The last of 4 numbers is above 3.",
        "$ regard lab counting --size tiny --seed 7\n",
        "[all numbers](counting.json)",
        "[`Record.json`](../../regard/lab/_report.py)",
    ):
        assert part in written
    assert "**It did not hold:**" in page(Counting(), replace(record, numbers={"values": [1]}))


def test_a_page_says_which_data_a_full_run_needs(record):
    class Reading(Counting):
        title = "Reading & counting"
        data = ("one_set", "another")

    written = page(Reading(), replace(record, size="full"))
    assert "```console\n$ regard data get one_set\n$ regard data get another\n$ regard lab counting" in written
    assert written.startswith("# Reading & counting\n")
    assert "data get" not in page(Reading(), record)


def test_the_list_of_pages_is_in_the_order_of_the_lectures(record, tmp_path):
    class Tenth(Counting):
        lecture = "F10"
        claim = "This does | not hold."

    class Second(Counting):
        lecture = "F2, F12"

    wrong = replace(record, experiment="tenth", numbers={"values": [1]})
    written = write_index([(Tenth(), wrong), (Second(), record)], tmp_path).read_text()
    second, tenth = (line for line in written.splitlines() if line.startswith("| F"))
    assert second.startswith("| F2, F12 | Later numbers are larger. | yes | [Counting](counting.md) |")
    assert tenth.startswith("| F10 | This does \\| not hold. | **no** | [Tenth](tenth.md) |")
    assert "1 of 2 claims held" in written


def test_what_speaks_against_it_is_said_everywhere(record):
    class Doubtful(Counting):
        def verdict(self, numbers):
            return replace(super().verdict(numbers), but="only on Mondays")

    assert "held: the last number is 10\nbut: only on Mondays\n" in text(Doubtful(), record.numbers)
    assert "**It held:** the last number is 10. **But:** only on Mondays.\n" in page(Doubtful(), record)
    assert "| yes, but only on Mondays |" in index([(Doubtful(), record)])
    assert "but" not in text(Counting(), record.numbers) and "but" not in index([(Counting(), record)])


def test_a_place_is_the_line_of_the_definition():
    found = place("regard.lab._report.Record.json")
    source = (registry.ROOT.parent / found.file).read_text().splitlines()
    assert source[found.line - 1] == "    def json(self) -> str:"
    assert place("regard.lab._source.Place").name == "Place"
    with pytest.raises(AttributeError):
        place("regard.lab._source.nothing")
    with pytest.raises(ImportError):
        place("nowhere.at.all")


def test_labels_are_pushed_apart_and_no_further():
    assert _apart([0.1, 0.5, 0.9], 0.1) == [0.1, 0.5, 0.9]
    assert _apart([0.5, 0.5], 0.1) == pytest.approx([0.45, 0.55])
    assert _apart([0.0, 0.05, 0.1, 0.9], 0.1) == pytest.approx([-0.05, 0.05, 0.15, 0.9])
    moved = _apart([0.2, 0.21, 0.29, 0.33, 0.34], 0.06)
    assert all(b - a >= 0.06 - 1e-9 for a, b in zip(moved, moved[1:]))


def test_labels_stand_at_the_height_of_their_lines():
    with styled():
        _, (axes,) = panels()
        axes.set(yscale="log", ylim=(1e-4, 1))
        label_ends(axes, [(1e-2, "middle", "red"), (1e-4, "bottom", "blue")])
        _, (scaled,) = panels()
        scaled.plot([0, 100])  # limits are not settled yet
        label_ends(scaled, [(50, "half", "red")])
    heights = {label.get_text(): label.xy[1] for label in [*axes.texts, *scaled.texts]}
    assert heights == pytest.approx({"middle": 0.5, "bottom": 0.0, "half": 0.5})


def test_the_listing_reads_what_a_class_assigns():
    source = Path(__file__).read_text()
    found = _listing._literals(ast.parse(source))
    assert (found["claim"], found["lecture"]) == (Counting.claim, "F0")


def test_names_have_hyphens_and_a_wrong_one_gets_the_nearest(monkeypatch):
    monkeypatch.setattr(registry, "kinds", lambda family: ["long_name", "other"])
    assert _listing.shown("long_name") == "long-name"
    assert _listing.kind_of("long-name") == _listing.kind_of("long_name") == "long_name"
    with pytest.raises(UserError, match="no experiment 'longname'; did you mean 'long-name'?"):
        _listing.kind_of("longname")


def test_another_packages_experiment_is_listed_too(monkeypatch):
    monkeypatch.setattr(registry, "kinds", lambda family: ["counting"])
    monkeypatch.setattr(registry, "factory", lambda family, kind: Counting)
    assert _listing.entries() == [_listing.Entry("counting", "F0", "Later numbers are larger.")]


def test_json_is_still_json_when_texts_look_like_lists(record):
    odd = {"texts": ["[", "]", "a\n  b", '"[\n 1 ]"'], "empty": [], "deep": [[[1], []], {"a": [1.5, None, True]}]}
    assert json.loads(replace(record, numbers=odd).json())["numbers"] == odd
