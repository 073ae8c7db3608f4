"""The laws of experiments. Every file in lab/ is found and held to them, in its tiny size."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from regard import registry
from regard.data.datasets import data_sets
from regard.errors import UserError
from regard.lab._experiment import Experiment, Setting, Verdict
from regard.lab._listing import entries, shown
from regard.lab._report import index, measure, page, read, text, write
from regard.lab._source import place

DOCS = Path(__file__).parents[2] / "docs" / "lab"
CONTRADICTED = {"cosine_similarity"}
"""Of these the small form finds that the lecture is wrong."""
QUICK = {"co_occurrence", "cosine_similarity", "gradient_descent", "scaled_scores", "softmax_and_sigmoid"}
"""Their tiny runs are repeated in every test run; those of all others, which train models, with the slow tests."""
OF_THE_DEVICE = {"parallel"}
"""Times, of which the verdict is one on the machine: a CPU has little to do at once."""


def experiment_of(kind: str) -> Experiment:
    return registry.create("lab", kind)


def plain(value: Any, without: tuple[str, ...]) -> Any:
    """Numbers less some keys, at any depth."""
    if isinstance(value, dict):
        return {key: plain(inner, without) for key, inner in value.items() if key not in without}
    return [plain(inner, without) for inner in value] if isinstance(value, list) else value


@pytest.fixture(params=registry.kinds("lab"))
def kind(request):
    return request.param


def test_it_says_what_it_claims_and_the_listing_says_the_same(kind):
    experiment = experiment_of(kind)
    assert isinstance(experiment, Experiment)
    for sentence in (experiment.claim, experiment.threshold):
        assert sentence.endswith(".") and "\n" not in sentence and len(sentence) > 20
    assert any(character.isdigit() for character in experiment.threshold), "a rule has its numbers"
    (entry,) = [entry for entry in entries() if entry.name == shown(kind)]
    assert (entry.claim, entry.lecture) == (experiment.claim, experiment.lecture) and entry.lecture


def test_it_is_computed_where_it_says(kind):
    experiment = experiment_of(kind)
    assert experiment.code
    for path in experiment.code:
        found = place(path)
        line = (Path(registry.ROOT).parent / found.file).read_text().splitlines()[found.line - 1]
        assert line.lstrip().startswith(("def ", "class ", "@")), f"{path} is not defined at {found}"


def test_a_tiny_run_takes_seconds(kind, tiny):
    assert tiny(kind).seconds < 60


@pytest.mark.slow
def test_a_small_run_takes_two_minutes_at_most_and_says_what_it_should(kind, tmp_path):
    command = [sys.executable, "-m", "regard", "lab", shown(kind), "--device", "cpu", "--output", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)  # as a user does: here all types are checked, too
    assert done.returncode == 0, done.stderr
    experiment, record = experiment_of(kind), read(tmp_path / f"{shown(kind)}.json", shown(kind))
    assert record.seconds < 120
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".svg", ".png"}
    verdict = experiment.verdict(record.numbers)
    assert kind in OF_THE_DEVICE or verdict.held == (kind not in CONTRADICTED), verdict.sentence


def test_the_full_size_wants_its_data_before_anything_else_and_says_where_from(kind, tmp_path):
    experiment = experiment_of(kind)
    assert set(experiment.data) <= set(data_sets()), "`regard data get` knows them"
    for wanted in experiment.data:
        for other in set(experiment.data) - {wanted}:
            (tmp_path / f"without {wanted}" / other).mkdir(parents=True)
        with pytest.raises(UserError, match=f"{wanted}, which is not there; `regard data get {wanted}`.*--data FOLDER"):
            measure(experiment, shown(kind), "full", Setting(data=tmp_path / f"without {wanted}"))


def test_numbers_survive_json(kind, tiny, tmp_path):
    record = tiny(kind)
    assert json.loads(record.json())["numbers"] == record.numbers
    path, *pictures = write(experiment_of(kind), record, tmp_path)
    assert read(path, shown(kind)) == record
    assert {picture.suffix for picture in pictures} == {".svg", ".png"}


def test_table_verdict_and_figure_are_made_from_the_numbers_alone(kind, tiny, tmp_path):
    record = tiny(kind)
    (tmp_path / "one").mkdir()
    first = write(experiment_of(kind), record, tmp_path / "one")
    again = read(first[0], shown(kind))
    for one, two in zip(first, write(experiment_of(kind), again, tmp_path / "two")):
        assert one.read_bytes() == two.read_bytes(), f"{one.name} has other bytes when it is made again"
    head, *rows = experiment_of(kind).table(again.numbers)
    assert rows and all(len(row) == len(head) and all(isinstance(cell, str) for cell in row) for row in rows)
    verdict = experiment_of(kind).verdict(again.numbers)
    assert isinstance(verdict, Verdict) and not verdict.sentence.endswith(".") and not verdict.but.endswith(".")
    assert text(experiment_of(kind), again.numbers) == text(experiment_of(kind), record.numbers)


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] * (kind not in QUICK)) for kind in registry.kinds("lab")]
)
def test_the_same_seed_gives_the_same_numbers(kind, tiny):
    experiment = experiment_of(kind)
    again = measure(experiment, shown(kind), "tiny", Setting())
    first, second = (plain(record.numbers, experiment.timed) for record in (tiny(kind), again))
    assert first == second
    assert first, "something is not a time"


def test_the_page_is_what_its_numbers_give(kind):
    numbers = DOCS / f"{shown(kind)}.json"
    record = read(numbers, shown(kind))
    assert record.size == "full"
    assert numbers.with_suffix(".md").read_text() == page(experiment_of(kind), record)
    assert numbers.with_suffix(".svg").exists()


def test_the_list_of_pages_is_what_their_numbers_give():
    found = [(experiment_of(kind), read(DOCS / f"{shown(kind)}.json", shown(kind))) for kind in registry.kinds("lab")]
    written = (DOCS / "README.md").read_text()
    assert written == index(found)
    assert all(f"({shown(kind)}.md)" in written for kind in registry.kinds("lab"))


def test_every_foundation_of_the_lectures_has_an_experiment():
    found = {place for entry in entries() for place in entry.lecture.split(", ")}
    assert found == {f"F{number}" for number in range(1, 18)}
