"""`regard tag` and `regard fill` as a user meets them: the text itself marked, blanks filled, a mistake in one line."""

from __future__ import annotations

import json

import pytest

import regard as package
from regard.config import read_recipe, tiny_form

from .conftest import imported


def trained(name, folder):
    return str(
        package.train(tiny_form(read_recipe(name)), "training.device=cpu", folder=folder / name, quiet=True).folder
    )


@pytest.fixture(scope="session")
def names(tmp_path_factory):
    return trained("entities-bilstm", tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def dna(tmp_path_factory):
    return trained("splice-mark", tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def blanks(tmp_path_factory):
    return trained("bert-english", tmp_path_factory.mktemp("runs"))


TEXT = "Yesterday, Harry Potter met Hermione Granger."
MARKED = "Yesterday, [person Harry Potter] met [person Hermione Granger]."


def test_a_text_comes_back_marked(run_regard, names):
    assert run_regard("tag", names, TEXT, "Nobody was at home.") == (f"{MARKED}\nNobody was at home.\n", "")


def test_lines_come_back_as_lines(run_regard, names, blanks):
    out, err = run_regard("tag", names, "-q", stdin=f"{TEXT}\n\nNobody was at home.\n")
    assert (out.split("\n"), err) == ([MARKED, "", "Nobody was at home.", ""], "")
    out, err = run_regard("fill", blanks, "-q", stdin="The _ begins at _ .\n\nHave _ seen Ada ?\n")
    first, empty, last = out.splitlines()
    assert first.count("|") == 1 and empty == "" and last.startswith("you\t") and err == ""


def test_a_file_is_answered_as_its_lines_are(run_regard, names, blanks, tmp_path):
    for command, model, lines, refused in (
        ("tag", names, [TEXT, "", "Ada met Bob."], None),
        ("fill", blanks, ["one _ two", "", "no blank", "_ one"], 3),
    ):
        (tmp_path / "in").write_text("".join(f"{line}\n" for line in lines))
        out = tmp_path / command
        _, told = run_regard(command, model, "--input", tmp_path / "in", "-o", out)
        wanted = [
            run_regard(command, model, line)[0].rstrip("\n") if line and number != refused else ""
            for number, line in enumerate(lines, 1)
        ]
        assert (out / "001-of-001.txt").read_text().split("\n")[:-1] == wanted
        assert ("line 3 is left empty: there is no blank" in told) == (refused == 3)


def test_every_word_as_json(run_regard, names):
    found = json.loads(run_regard("tag", names, "--format", "json", TEXT)[0])
    assert found["words"][:3] == ["Yesterday", ",", "Harry"] and found["tags"][2:4] == ["B-person", "I-person"]
    assert len(found["probabilities"]) == len(found["words"]) == 8
    for span in found["spans"]:
        assert TEXT[span["start"] : span["stop"]] == span["text"] and span["kind"] == "person"
    cut = json.loads(run_regard("tag", names, "--words", "--format", "json", "Ada's met  Alan-Turing .")[0])
    assert cut["words"] == ["Ada's", "met", "Alan-Turing", "."]


def test_text_cannot_break_the_line(run_regard, names):
    assert run_regard("tag", names, "a\nb\u2028c")[0].count("\n") == 1


def test_dna_comes_back_marked(run_regard, dna):
    out, _ = run_regard("tag", dna, "gcgcggccgatataatcgcggccgcgatcggcgcgccgcg")
    assert out == "gcgcggccga[site t]ataatcgcggccgcgatcggcgcgccgcg\n"


def test_blanks_are_filled(run_regard, blanks):
    out, _ = run_regard("fill", blanks, "The film begins _ eight .", "--top", "2")
    word, probability, _, other = out.rstrip("\n").split("\t")
    assert word == "at" and float(probability) > float(other)
    found = json.loads(run_regard("fill", blanks, "--format", "json", "Have _ seen Ada ?")[0])
    assert found["text"] == "Have you seen Ada ?" and len(found["blanks"][0]) == 5


@pytest.mark.parametrize(
    ("command", "text", "message"),
    [
        ("fill", "no blank here", "there is no blank in the text; write _ where a word is wanted"),
        ("fill", " ", "the text is empty"),
        ("fill", "film " * 100 + "_", "the text has 101 tokens, but this model reads 64"),
        ("tag", " ", "the text is empty"),
        ("tag", "ACGX", "letter 'X' at place 4 is not in the alphabet; allowed are A, C, G, T, N, D, R, S"),
    ],
)
def test_a_mistake_is_one_line(command, text, message, blanks, dna, run_regard):
    out, err = run_regard(command, blanks if command == "fill" else dna, text, code=2)
    assert out == "" and err.count("\n") == 1 and message in err


def test_a_model_for_something_else(run_regard, names, blanks):
    assert "made to tag, not to fill; use: regard tag" in run_regard("fill", names, "a _", code=2)[1]
    assert "made to fill, not to tag" in run_regard("tag", blanks, "a", code=2)[1]


def test_a_run_is_tested_on_its_own_examples(run_regard, names, blanks):
    assert run_regard("evaluate", names)[0].startswith("f1 ") and "accuracy" in run_regard("evaluate", blanks)[0]


@pytest.mark.parametrize("command", ["tag", "fill"])
def test_help_comes_without_torch(command, tmp_path):
    assert not {"torch", "numpy"} & imported(command, "--help")[1]
