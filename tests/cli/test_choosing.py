"""`regard translate` with --mbr, --rerank and --memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import LINES


@pytest.fixture
def memory(tmp_path: Path) -> str:
    path = tmp_path / "memory.tsv"
    path.write_text(f"{LINES[1]}\tWhere is it?\nelle a lu ce livre trois fois.\tshe read it\n")
    return str(path)


def test_matches_are_used_and_shown(model: str, memory: str, run_regard: Any) -> None:
    arguments = ("translate", "-m", model, "--memory", memory, LINES[1], LINES[2], LINES[0])
    out, err = run_regard(*arguments)
    assert out.split("\n")[0] == "Where is it?" and out.count("\n") == 3
    assert err.split("\n")[:-1] == [
        f"regard: line 1: exact match: {LINES[1]} -> Where is it?",
        "regard: line 2: 88% match: elle a lu ce livre trois fois. -> she read it",
    ]
    assert run_regard(*arguments, "--quiet") == (out, "")
    listed, err = run_regard(*arguments, "--json")
    trees = [json.loads(line) for line in listed.splitlines()]
    assert [tree["text"] for tree in trees] == out.splitlines() and not err
    assert trees[0]["matches"] == [{"source": LINES[1], "target": "Where is it?", "similarity": 1.0}]
    assert trees[1]["matches"][0]["similarity"] == pytest.approx(7 / 8) and "matches" not in trees[2]
    assert run_regard(*arguments, "--memory-threshold", "0.9")[1].count("\n") == 1


def test_minimum_bayes_risk_and_reranking(model: str, run_regard: Any) -> None:
    plain = run_regard("translate", "-m", model, *LINES)[0]
    drawn = run_regard("translate", "-m", model, "--mbr", "5", "--scores", *LINES)[0]
    assert drawn == run_regard("translate", "-m", model, "--mbr", "5", "--scores", *LINES)[0]
    assert all(0 <= float(line.split("\t")[1]) <= 1 for line in drawn.splitlines())
    ranked = run_regard(
        "translate", "-m", model, "--rerank", f"reverse={model}", "--rerank-weight", "reverse=0", *LINES
    )
    assert ranked[0].count("\n") == plain.count("\n")


def test_a_corpus(model: str, memory: str, tmp_path: Path, run_regard: Any) -> None:
    (tmp_path / "lines.txt").write_text("\n".join(LINES) + "\n")
    words = ("translate", "-m", model, "--input", tmp_path / "lines.txt", "--output", tmp_path / "out", "--shards", 1)
    run_regard(*words, "--memory", memory)
    assert next((tmp_path / "out").glob("*.txt")).read_text().split("\n")[1] == "Where is it?"
    _, err = run_regard(*words, "--mbr", "2", code=2)  # another search into the same folder
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--mbr", "3", "--rerank", "lm=x"], "--mbr and --rerank both choose"),
        (["--mbr", "3", "--memory", "m.tsv"], "--mbr draws its samples without a memory"),
        (["--mbr-metric", "bleu"], "--mbr-metric and --mbr-from belong to --mbr N"),
        (["--mbr", "3", "--beam", "2"], "has no use for --beam"),
        (["--rerank", "revers=x"], "--rerank: 'revers=x' is not understood; did you mean 'reverse'?"),
        (["--rerank", "lm=a", "--rerank", "lm=b"], "--rerank: lm is there twice"),
        (["--rerank-weight", "lm=1"], "--rerank-weight: 'lm' has no model"),
        (["--rerank", "lm=shakespeare", "--rerank-weight", "lm=a"], "'a' is not a number"),
        (["--memory-threshold", "0.5"], "--memory-threshold belongs to --memory"),
        (["--memory", "nowhere/m.tsv"], "nowhere/m.tsv does not exist"),
        (["--mbr", "3", "--server", "http://localhost:1"], "need a model that translates directly"),
    ],
)
def test_mistakes_are_one_line(words: list[str], message: str, model: str, run_regard: Any) -> None:
    out, err = run_regard("translate", "-m", model, *words, "Oui.", code=2)
    assert out == "" and message in err and err.count("\n") == 1
