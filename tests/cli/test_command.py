"""The grammar that all commands share: the model's place, --json, and old spellings that say the new one."""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from pathlib import Path

import pytest
import typer.main

from regard.cli import app, main
from regard.cli.command import OLD, Command
from regard.errors import UserError

ROOT = Path(__file__).parents[2]
VALUES = {"--to": "ctranslate2", "--json": "rows.json", "--from": "runs/mine"}
"""What each old option was given; any other takes any value."""


@cache
def tree():
    return typer.main.get_command(app)


def command(path: str) -> Command:
    found = tree()
    for word in path.split():
        found = found.commands[word]
    return found


def every() -> list[str]:
    top = tree().commands
    below = {name: list(getattr(one, "commands", ())) for name, one in top.items()}
    return [n for n in top if not below[n]] + [f"{n} {inner}" for n, found in below.items() for inner in found]


def rewritten(path: str, *words: str) -> list[str]:
    return command(path)._rewritten(words, OLD.get(path, {}))


@pytest.mark.parametrize(("path", "old"), [(path, old) for path, known in OLD.items() for old in known])
def test_an_old_spelling_is_understood_and_says_the_new_one(path, old, capfd):
    new, value = OLD[path][old].new, VALUES.get(old, "somewhere")
    assert new in {name for option in command(path).params for name in option.opts}, "the new one exists"
    for words in ([old, value], [f"{old}={value}"]):
        assert rewritten(path, "x", *words, "y") == ["x", new, value, "y"]
        assert capfd.readouterr().err == f"regard: {old} is now {new}\n"
    assert rewritten(path, new, value) == [new, value]
    assert capfd.readouterr().err == ""


def test_every_old_spelling_is_documented():
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    told = page[page.index("| old | new |") :]
    for path, known in OLD.items():
        for old, renamed in known.items():
            assert path.split()[0] in told and old in told and renamed.new in told


@pytest.mark.parametrize("code", ["fr", "de", "zh-Hans", "pt_BR", "ast"])
def test_from_and_to_are_languages(code, capfd):
    assert rewritten("train", "--from", code, "--to", "en") == ["--from", code, "--to", "en"]
    assert rewritten("export", "fr-en", "--to", code) == ["fr-en", "--to", code]
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("model", ["fr-en", "fashion", "runs/fr", "./fr", "/models/fr"])
def test_an_old_from_that_names_a_model_is_where_to_start(model, capfd):
    assert rewritten("train", "--from", model) == ["--start", model]
    assert "--from is now --start" in capfd.readouterr().err


@pytest.mark.parametrize("words", [["-m", "M"], ["-mM"], ["--model", "M"], ["--model=M"], ["-qm", "M"]], ids=" ".join)
def test_the_model_is_the_first_argument_or_an_option(words):
    found = rewritten("classify", "one", *words, "--top", "2", "--", "-two")
    assert [word for word in found if word != "-q"] == ["M", "one", "--top", "2", "--", "-two"]
    assert rewritten("serve", *words, "-m", "N")[:2] == ["M", "N"]
    with pytest.raises(UserError, match="one model at a time"):
        rewritten("classify", *words, "-m", "N")


def test_what_looks_like_an_option_but_is_a_value_stays_one():
    assert rewritten("translate", "--model", "--json", "-m", "x") == ["--model", "--json", "-m", "x"]
    assert rewritten("classify", "--device", "-m", "x") == ["--device", "-m", "x"]
    assert rewritten("lab", "--", "--from", "x") == ["--", "--from", "x"]


@pytest.mark.parametrize("path", every())
def test_every_command_keeps_to_the_grammar(path):
    params = command(path).params
    named = {param.name: param for param in params}
    options = {name for param in params if param.param_type_name == "option" for name in param.opts}
    assert isinstance(command(path), Command)
    assert "--out" not in options and "--into" not in options
    if "model" in named:
        assert {"-m", "--model"} <= options
    if "--output" in options:
        assert "-o" in options
    if "format" in named:
        assert "--json" in options and rewritten(path, "--json") == ["--format", "json"]
    for option in ("--from", "--to"):
        assert option not in options or next(p for p in params if option in p.opts).metavar == "CODE"
    if "--data" in options:
        option = next(p for p in params if "--data" in p.opts)
        assert "REGARD_DATA" in f"{option.envvar} {option.help}"


def test_results_that_are_records_have_json():
    for path in ("doctor", "models", "recipes", "evaluate", "bench", "lab", "data", "vectors near", "vectors compare"):
        assert any("--json" in param.opts for param in command(path).params), path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["clasify"], "No such command 'clasify'. Did you mean 'classify'?"),
        (["translate", "--beem", "2"], "No such option: --beem"),
        (["translate", "--beam"], "requires an argument"),
        (["classify"], "Missing argument 'MODEL'"),
        (["export", "fr-en"], "Missing option '--output' / '-o'"),
        (["translate", "--quiet=1"], "does not take a value"),
        (["vectors", "nere", "x"], "Did you mean 'near'?"),
        (["doctor", "x"], "extra argument"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_in_the_arguments_is_one_line(words, message, run_regard):
    out, err = run_regard(*words, code=2)
    assert (
        out == "" and message in err and err.count("\n") == 1 and re.match(r"regard: .*; see: regard.* --help\n", err)
    )


@pytest.fixture
def begun(monkeypatch, tmp_path):
    """The recipes that trainings would have begun with; none is run."""
    seen = []

    def train(recipe, *overrides, **more):
        seen.append(recipe)
        raise UserError("not run")

    monkeypatch.setattr("regard.runs.train", train)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REGARD_DATA", raising=False)

    def run(*words: str):
        monkeypatch.setattr(sys, "argv", ["regard", "train", *words])
        with pytest.raises(SystemExit):
            main()
        return seen.pop()

    return run


def test_train_takes_languages_and_where_to_start(begun):
    recipe = begun("--source", "a", "--target", "b", "--from", "fr", "--to", "en", "--start", "fr-en")
    assert (recipe.source_language, recipe.target_language, recipe.training.start_from) == ("fr", "en", "fr-en")
    assert begun("--source", "a", "--target", "b", "--from", "fr-en").training.start_from == "fr-en"


def test_train_heeds_the_folder_of_data_sets(begun, tmp_path, monkeypatch):
    own = tmp_path / "own.toml"
    own.write_text('[data]\nroot = "mine"\n')
    (tmp_path / "typed").mkdir()
    assert begun("multi30k-en-de").data.root == "data"
    assert begun("multi30k-en-de", "--data", "typed").data.root == "typed"
    assert begun("own.toml", "--data", "typed").data.root == "typed"
    assert begun("own.toml", "--data", "typed", "data.root=last").data.root == "last"
    monkeypatch.setenv("REGARD_DATA", "environment")
    assert begun("multi30k-en-de").data.root == "environment"
    assert begun("multi30k-en-de", "--data", "typed").data.root == "typed"
    assert begun("own.toml").data.root == "mine", "a recipe that names its folder means it"


def test_export_states_languages_and_the_folder_stays_whole(model, tmp_path, run_regard):
    from regard.find_model import read_recipe_of
    from regard.storage import read_folder

    run_regard("export", "-m", model, "-o", tmp_path / "x", "--from", "fr", "--to", "en")
    recipe = read_recipe_of(read_folder(tmp_path / "x"))
    assert (recipe.source_language, recipe.target_language) == ("fr", "en")


def test_a_doctor_and_a_list_of_benchmarks_are_records(run_regard):
    for words, name in ((["doctor", "--json"], "torch"), (["bench", "--list", "--json"], "cold-start")):
        out, _ = run_regard(*words)
        assert name in str(json.loads(out)) and out.count("\n") == 1
