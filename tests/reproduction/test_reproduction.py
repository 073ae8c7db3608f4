"""Rows are measured once, go on where they were stopped, and the page is what the records say."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import regard
from regard.config import shipped_recipes
from regard.errors import UserError
from regard.loading import task_of
from regard.reproduction import measuring
from regard.reproduction.measuring import measure, rehearse, right, scored
from regard.reproduction.moses import FOLDER, prepare
from regard.reproduction.page import BEGIN, END, cells, generated, with_rows
from regard.reproduction.record import Measured, Record, read_record, recipe_hash, write_record
from regard.reproduction.rows import Row, rows

ROOT = Path(__file__).resolve().parents[2]
ROWS = rows()
SHORT = ("data.format={kind='made_reviews', count=60}", "training.steps=6", "training.validate_every=3")
ROW = Row(
    name="reviews",
    title="Reviews that the package makes",
    recipe="sst2-lstm",
    score="accuracy",
    unit="%",
    published="90",
    source="nobody",
    terms="These.",
    differs="All.",
    seeds=(1, 2),
    settings=(
        *SHORT, "data.train=[]", "data.valid=[]", "data.test=[]", "model.stem.width=8", "model.encoder={width=8, layers=1}",
    ),
)  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_a_row_has_a_recipe_whose_task_gives_its_scores(name):
    row = ROWS[name]
    assert row.recipe in shipped_recipes() and (not row.first or row.first in shipped_recipes())
    recipes = [row.resolved(run, ("data.root=somewhere",)) for run in row.runs]
    assert len({recipe.seed for recipe in recipes}) == (1 if row.folds else len(row.seeds))
    assert len({recipe.data.fold for recipe in recipes}) == max(1, row.folds)
    given = {"strings", "places"} if "length" in row.test else {*task_of(recipes[0]).scores_of(recipes[0])}
    assert {row.score, *row.also} <= given
    assert row.prepare in ("", *measuring.PREPARATIONS)
    assert all([row.title, row.unit, row.published, row.source, row.terms, row.differs])


def test_the_page_is_what_rows_and_records_say():
    page = (ROOT / "docs/reproduced.md").read_text(encoding="utf-8")
    records = {name: read_record(ROOT / "docs/records", name) for name in ROWS}
    assert with_rows(page, ROWS, records, "") == page, (
        "regard reproduce --records docs/records --page docs/reproduced.md writes it"
    )
    assert {file.stem for file in (ROOT / "docs/records").glob("*.json")} <= {*ROWS}


def test_every_record_is_of_the_recipe_as_it_is():
    for name, row in ROWS.items():
        if record := read_record(ROOT / "docs/records", name):
            assert record.recipe == measuring.hash_of(row), f"{name} was measured with another recipe"
            assert {run.run for run in record.runs} <= set(row.runs)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Two seeds, of which the second is trained in a second call."""
    folder = tmp_path_factory.mktemp("reproduced")
    notes: list[str] = []
    kept = {"folder": folder, "records": folder / "records", "data": folder, "device": "cpu", "quiet": True}
    measure(replace(ROW, seeds=(1,)), **kept, note=notes.append)
    record = measure(ROW, **kept, note=notes.append)
    return record, kept, notes


def test_what_is_finished_is_not_done_again(measured):
    record, kept, notes = measured
    assert notes == ["reviews, seed-1", "reviews, seed-2"]
    assert [run.run for run in record.runs] == ["seed-1", "seed-2"]
    assert read_record(kept["records"], "reviews") == record
    for run in record.runs:
        assert run.scores == pytest.approx(regard.evaluate(kept["folder"] / "reviews" / run.run), abs=1e-4)
        assert set(run.validation) == set(run.scores) and run.seconds is not None
    assert record.parameters == sum(
        p.numel() for p in regard.load(kept["folder"] / "reviews/seed-1").model.parameters()
    )


def test_a_run_that_was_stopped_goes_on_and_a_finished_one_is_only_tested(measured, tmp_path):
    _, kept, _ = measured
    again = {**kept, "folder": tmp_path, "records": tmp_path / "records"}
    shutil.copytree(kept["folder"] / "reviews", tmp_path / "reviews")
    shutil.rmtree(tmp_path / "reviews/seed-2/model")
    best = kept["folder"] / "reviews/seed-1/model/weights.safetensors"
    record = measure(ROW, **again, note=lambda line: None)
    assert [run.scores for run in record.runs] == [run.scores for run in measured[0].runs]
    assert [run.seconds for run in record.runs] == [None, None]
    assert (tmp_path / "reviews/seed-1/model/weights.safetensors").read_bytes() == best.read_bytes()


def test_scores_of_different_recipes_are_not_put_together(measured):
    _, kept, _ = measured
    other = replace(ROW, settings=(*ROW.settings, "model.head_dropout=0.2"))
    with pytest.raises(UserError, match="was measured with another recipe; delete it and .*reviews to measure again"):
        measure(other, **kept, note=lambda line: None)


def test_a_hash_is_of_what_differs_from_the_defaults_but_for_seed_fold_place_and_device(monkeypatch):
    one = ROW.resolved("seed-1")
    same = ("data.root=elsewhere", "training.device=cuda", "name=other", "data.fold=3", "training.ema=0.0")
    assert recipe_hash(one) == recipe_hash(ROW.resolved("seed-2", same))
    monkeypatch.setenv("REGARD_DATA", "another")
    assert recipe_hash(one) == recipe_hash(ROW.resolved("seed-1"))
    for other in ("training.ema=0.5", "model.width=9", "data.folds=5"):
        assert recipe_hash(one) != recipe_hash(ROW.resolved("seed-1", (other,)))
    assert recipe_hash(one) != recipe_hash(one, one)


def test_a_run_of_another_recipe_is_not_taken_for_this_one(measured, tmp_path):
    _, kept, _ = measured
    shutil.copytree(kept["folder"] / "reviews/seed-1", tmp_path / "reviews/seed-1")
    other = replace(ROW, settings=(*ROW.settings, "model.head_dropout=0.2"))
    with pytest.raises(UserError, match="seed-1 was trained by another recipe or on other files; delete it"):
        measure(other, **{**kept, "folder": tmp_path, "records": tmp_path / "records"}, note=lambda line: None)


def test_a_damaged_record_is_refused_in_one_line(tmp_path):
    write_record(tmp_path, Record("x", "0", runs=[Measured("seed-1", {"accuracy": 1.0}, {}, None)]))
    file = tmp_path / "x.json"
    for content in ("", "[]", "{}", file.read_text().replace('"x"', '"y"'), file.read_text().replace("1.0", '"1"')):
        file.write_text(content)
        with pytest.raises(UserError, match="x.json: is no record of x; delete it") as error:
            read_record(tmp_path, "x")
        assert "\n" not in str(error.value)


def test_mean_spread_and_what_is_missing_are_shown():
    runs = [Measured(f"seed-{n}", {"accuracy": value}, {"accuracy": 50.0}, 30) for n, value in ((1, 80.0), (2, 84.0))]
    record = Record("reviews", "0", 1234, "cpu", {"torch": "2"}, runs)
    assert cells(ROW, record) == ["**82.00** %", "2.00", "2", "50.00", "30 s", "cpu"]
    assert cells(replace(ROW, seeds=(1, 2, 3)), record)[2] == "2 of 3"
    assert cells(ROW, None)[0] == "not measured"
    text = generated({"reviews": ROW}, {"reviews": record})
    assert "**Each run**: 80.00, 84.00; 1,234 parameters, torch 2." in text
    with pytest.raises(UserError, match="page.md: has no lines"):
        with_rows("nothing", {"reviews": ROW}, {}, "page.md")
    assert with_rows(f"a\n{BEGIN}\nold\n{END}\nb", {"reviews": ROW}, {}, "").startswith(f"a\n{BEGIN}\n| row |")


def test_multi30k_is_prepared_once_in_moses_tokens(tmp_path):
    import gzip

    (tmp_path / "multi30k").mkdir()
    for part in ("train", "val", "test_2016_flickr"):
        for language in ("en", "de", "fr"):
            text = "A man’s “big” dog, isn't it?\n\nZwei.\n"
            (tmp_path / "multi30k" / f"{part}.{language}.gz").write_bytes(gzip.compress(text.encode()))
    notes: list[str] = []
    prepare(tmp_path, notes.append)
    prepare(tmp_path, notes.append)
    assert len(notes) == 1 and len(list((tmp_path / FOLDER).iterdir())) == 9
    assert (tmp_path / FOLDER / "val.en").read_text() == "a man 's \" big \" dog , isn 't it ?\n\nzwei .\n"


class Echo:
    """Translates by copying, with a mistake in the last word of every second text."""

    recipe = type("Recipe", (), {"target_language": "en"})()

    def translate(self, sources, beam):
        assert beam == 5
        return [type("Translation", (), {"text": text})() for text in sources]


def test_translations_are_scored_as_the_row_says(tmp_path):
    (tmp_path / "a").write_text("the cat sat on the mat .\nThe Dog is here .\n")
    (tmp_path / "b").write_text("the cat sat on the mat .\nthe dog is here .\n")
    row = replace(ROW, test={"source": "a", "target": "b", "tokenize": "none", "beam": 5})
    import sacrebleu

    wanted = sacrebleu.corpus_bleu(
        ["the cat sat on the mat .", "The Dog is here ."], [["the cat sat on the mat .", "the dog is here ."]],
        tokenize="none", force=True,
    ).score  # fmt: skip
    found = scored(row, tmp_path, Echo(), tmp_path, "cpu")
    assert found["bleu"] == pytest.approx(wanted) and 0 < wanted < 100


def test_strings_and_places_that_are_right():
    class Model:
        def __init__(self, wrong):
            self.tokenizer, self.wrong, self.count = self, wrong, 0

        def encode(self, source):
            return source

        def search(self, sources, beam, max_length):
            return [[type("Hypothesis", (), {"ids": source})()] for source in sources]

        def decode(self, source):
            self.count += 1
            return source if self.count > self.wrong else source[:-1] + "x"

    assert right(Model(0), "copy", 5, 4) == {"strings": 100.0, "places": 100.0}
    assert right(Model(1), "copy", 5, 4) == {"strings": 75.0, "places": pytest.approx(95.0)}


def test_the_command(run_regard, tmp_path, monkeypatch):
    out, _ = run_regard("reproduce", "-o", tmp_path)
    assert [line.split()[0] for line in out.splitlines()[1:]] == list(ROWS) and "not measured" in out
    tree = json.loads(run_regard("reproduce", "-o", tmp_path, "--json")[0])
    assert [one["row"] for one in tree] == list(ROWS) and tree[0]["record"] is None
    assert "no row 'splise'; did you mean 'splice'?" in run_regard("reproduce", "splise", code=2)[1]
    assert "leave out the names" in run_regard("reproduce", "splice", "--all", code=2)[1]
    assert "name them, or --all" in run_regard("reproduce", "--tiny", code=2)[1]
    monkeypatch.chdir(tmp_path)
    _, told = run_regard("reproduce", "splice", "--data", tmp_path, "-o", tmp_path / "runs", code=2)
    assert re.search(r"dna/splice\.data\.gz does not exist", told)
    assert not (tmp_path / "runs/splice").exists()


def test_a_rehearsal_records_nothing(tmp_path):
    row = replace(ROWS["splice"], settings=("tiny.training.steps=4", "tiny.training.validate_every=4"))
    assert "accuracy" in rehearse(row, tmp_path)
    assert not list(tmp_path.glob("**/records"))
