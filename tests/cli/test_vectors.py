"""`regard vectors`: training, neighbours, analogies, comparison; mistakes in one line."""

from __future__ import annotations

import json
from functools import partial

import pytest

from regard.cli import app
from regard.data.vectors.file import read_vectors

from .conftest import imported, regard


@pytest.fixture
def run_vectors(run_regard):
    return partial(run_regard, "vectors")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vectors")
    lines = [f"{a} {h} sun shines by day" for a in ("the", "a") for h in ("hot", "warm")] * 40
    lines += [f"{a} {c} moon shines by night" for a in ("the", "a") for c in ("cold", "cool")] * 40
    (folder / "corpus.txt").write_text("\n".join(lines) + "\n")
    words = ["vectors", "train", "corpus.txt", "-o", "v.txt", "--width", "8", "--epochs", "60", "--device", "cpu"]
    return folder, regard(*words, text=True, cwd=folder)


@pytest.mark.parametrize("words", [["vectors", "--help"], ["vectors", "train", "--help"]], ids=" ".join)
def test_help_comes_without_torch(words):
    out, modules = imported(*words)
    assert not {"torch", "numpy", "rich"} & modules
    assert "train" in out


def test_commands_and_groups_are_all_there_after_a_run(run_vectors, trained):
    before = len(app.registered_commands), len(app.registered_groups)
    run_vectors("near", "hot", "-v", trained[0] / "v.txt")
    assert (len(app.registered_commands), len(app.registered_groups)) == before


def test_vectors_are_learnt_and_told_of(trained):
    folder, done = trained
    assert done.returncode == 0 and done.stdout == ""
    told = done.stderr.splitlines()
    assert told[1] == "regard: 1,920 words, 12 different ones kept" and "the loss fell from" in told[2]
    assert told[3].startswith("regard: wrote v.txt: 12 words, 8 numbers each")
    assert len((folder / "v.txt").read_text().splitlines()) == 12
    assert sorted(path.name for path in folder.iterdir()) == ["corpus.txt", "v.txt"]


def test_near_analogy_and_compare(trained, run_vectors):
    file = trained[0] / "v.txt"
    out, _ = run_vectors("near", "hot", "-v", file, "-n", 2)
    first, second = (line.split("\t") for line in out.splitlines())
    assert first[0] == "warm" and 1 >= float(first[1]) >= float(second[1])
    found = json.loads(run_vectors("analogy", "sun", "day", "moon", "-v", file, "--format", "json")[0])
    assert [one["word"] for one in found] == [word for word, _ in read_vectors(file).analogy("sun", "day", "moon")]
    numbers = json.loads(run_vectors("compare", "hot", "warm", "-v", file, "--format", "json")[0])
    assert numbers["cosine"] == pytest.approx(float(first[1]), abs=1e-3) and numbers["dot"] > 0
    assert run_vectors("compare", "hot", "hot", "-v", file)[0].splitlines()[1] == "cosine\t1.0000"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["near", "hto", "-v", "v.txt"], "no vector for 'hto' among 12 words; did you mean 'hot'?"),
        (["near", "hot"], "vectors.txt does not exist; name a file with -v"),
        (["near", "hot", "-v", "none.txt"], "none.txt does not exist"),
        (["near", "hot", "-v", "corpus.txt"], "corpus.txt, line 1: a word and 1 to 4,096 numbers are wanted"),
        (["train", "none.txt"], "none.txt does not exist"),
        (["train", "corpus.txt", "-o", "."], ". is a folder"),
        (["train", "corpus.txt", "--min-count", "1000"], "no word that occurs 1000 times"),
        (["train", "corpus.txt", "--device", "cdua"], "device 'cdua' is not known"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_one_line(words, message, trained, run_vectors, monkeypatch):
    monkeypatch.chdir(trained[0])
    out, err = run_vectors(*words, *(["-q"] if words[0] == "train" else []), code=2)
    assert out == "" and err.startswith("regard: ") and message in err and err.count("\n") == 1
    assert sorted(path.name for path in trained[0].iterdir()) == ["corpus.txt", "v.txt"]
