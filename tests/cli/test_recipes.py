"""`regard recipes`: every recipe listed with what was measured, and the table in docs/measured.md made of the same numbers."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from regard.cli.recipes import NOT_MEASURED, Measured, entries, measured, users_of
from regard.config import read_recipe, shipped_recipes
from regard.errors import UserError
from tools.recipe_table import BEGIN, END, markdown_table, pages, with_table

from .conftest import imported, regard

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run_recipes(monkeypatch, run_regard, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REGARD_DATA", raising=False)

    return partial(run_regard, "recipes")


@pytest.fixture
def shipped(monkeypatch, tmp_path):
    """Recipes of our own instead of the shipped ones."""
    folder = tmp_path / "recipes"
    folder.mkdir()
    (folder / "one.toml").write_text(
        '# "sst2/comment.gz"\ntask = "classify"\n[data]\ntrain = ["sst2/train.tsv.gz#2", "mine/x"]\n'
        'valid = "sst2/dev.tsv.gz"\n[data.format]\nlabels = ["T-shirt/top"]\nfile = "dna/promoters.data"\n'
    )
    (folder / "two.toml").write_text('task = "tag"\n[data.format]\nkind = "made_algorithm"\n')
    (folder / "three.toml").write_text("")
    monkeypatch.setattr("regard.config.shipped_recipes", lambda: {path.stem: path for path in folder.glob("*.toml")})
    return folder


@pytest.mark.parametrize("words", [["recipes"], ["recipes", "fr-en"]], ids=" ".join)
def test_it_comes_without_torch(words):
    assert not {"torch", "numpy", "rich"} & imported(*words)[1]


def test_the_list_has_every_recipe(tmp_path):
    done = regard("recipes", cwd=tmp_path, text=True)
    header, *lines = done.stdout.splitlines()
    assert header.split() == ["RECIPE", "TASK", "DATA", "PARAMETERS", "SCORE"]
    assert [line.split()[0] for line in lines] == list(shipped_recipes())
    (line,) = [line for line in lines if line.startswith("fr-en ")]
    assert line.split()[1] == "translate" and "europarl_en_de_fr, tatoeba_en_fr" in line


def test_every_measurement_is_of_a_recipe_that_is_there():
    path = ROOT / "recipes/measured.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content.keys() <= shipped_recipes().keys()
    for name, entry in measured().items():
        assert entry.parameters >= 0 and entry.result != NOT_MEASURED, name


def test_tasks_are_those_the_recipes_name():
    for name, entry in entries().items():
        assert entry.task == read_recipe(name).task


def test_the_table_in_the_docs_is_current():
    (path,) = pages()
    page = path.read_text(encoding="utf-8")
    assert page.count(BEGIN) == page.count(END) == 1
    assert with_table(page) == page, "python tools/recipe_table.py writes it"


def test_the_table_goes_between_its_marks():
    assert with_table("no marks") == "no marks"
    made = with_table(f"a\n{BEGIN}\nold\n{END}\nb\n")
    assert made == f"a\n{BEGIN}\n{markdown_table()}\n{END}\nb\n" == with_table(made)


def test_what_a_recipe_reads(shipped):
    found = entries()
    assert found["one"].files == ("sst2/train.tsv.gz", "sst2/dev.tsv.gz", "dna/promoters.data")
    assert [found[name].data for name in ("one", "two", "three")] == ["sst2, dna", "made as it goes", "your own"]
    assert [found[name].task for name in ("one", "two", "three")] == ["classify", "tag", "translate"]
    assert users_of("sst2") == ["one"] and users_of("sst") == []


def test_what_was_not_measured_is_said(shipped, run_recipes):
    assert run_recipes()[0].splitlines()[1].endswith("-           not measured")
    (shipped / "measured.json").write_text('{"one": {"score": "% right", "value": 93.1, "parameters": 1234}}')
    rows = {line.split()[0]: line for line in run_recipes()[0].splitlines()}
    assert rows["one"].endswith("1,234       93.1 % right") and rows["two"].endswith("not measured")
    assert "| `one` | classify | sst2, dna | 1,234 | 93.1 % right |  |" in markdown_table()


@pytest.mark.parametrize("text", ["{", "[]", '{"one": 3}', '{"one": {"scor": 1}}'])
def test_a_broken_register_is_one_line(shipped, text):
    (shipped / "measured.json").write_text(text)
    with pytest.raises(UserError, match="measured.json: does not say what was measured"):
        measured()


def test_one_recipe_with_its_data_and_its_commands(shipped, run_recipes):
    (shipped / "measured.json").write_text(
        '{"one": {"score": "F1", "value": 90, "time": "2 min", "hardware": "a laptop"}}'
    )
    Path("data/dna").mkdir(parents=True)
    Path("data/dna/promoters.data").touch()
    out, err = run_recipes("one")
    assert err == "" and out.startswith('# "sst2/comment.gz"\n')
    assert out.splitlines()[-6:] == [
        "data        sst2: train.tsv.gz, dev.tsv.gz not in data/sst2: regard data get sst2",
        "data        dna: there",
        "parameters  -",
        "measured    90 F1 (2 min, a laptop)",
        "train       regard train one",
        "use         regard classify runs/one ...",
    ]
    assert "regard data get dna --data else" in run_recipes("one", "--data", "else")[0]
    told = run_recipes("three.toml")[0]
    assert "data        your own" in told and "regard translate --model runs/three ..." in told
    found = json.loads(run_recipes("one", "--format", "json")[0])
    assert found["missing"] == ["sst2/train.tsv.gz", "sst2/dev.tsv.gz"] and found["measured"]["value"] == 90
    assert [one["name"] for one in json.loads(run_recipes("--format", "json")[0])] == list(entries())


def test_a_recipe_that_is_not_there(run_recipes):
    out, err = run_recipes("fr-em", code=2)
    assert out == "" and err == "regard: no recipe 'fr-em'; did you mean 'fr-en'?\n"


def test_a_result_reads_as_one():
    assert Measured("BLEU", 39.6).result == "39.6 BLEU" and Measured("BLEU", "39.60").result == "39.60 BLEU"
    assert Measured().result == "not measured" and Measured().size == "-" and Measured().effort == ""
    assert Measured("error", 0).result == "0 error"
