"""`regard train` and `regard evaluate`, from two text files to scores, at the smallest size."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import sacrebleu

from regard.config import read_recipe

from .conftest import LINES


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("test.fr").write_text("\n".join(LINES) + "\n")
    Path("test.en").write_text("gare lu lu\nwhere is it ?\nsuis ce gare\nbien sûr\n")
    return tmp_path


def test_evaluate_prints_what_sacrebleu_computes(model, corpus, run_regard):
    files = ("--source", "test.fr", "--target", "test.en")
    outputs = run_regard("translate", "--model", model, *LINES)[0].splitlines()
    references = Path("test.en").read_text().splitlines()
    bleu = sacrebleu.corpus_bleu(outputs, [references])
    chrf = sacrebleu.corpus_chrf(outputs, [references])
    out, err = run_regard("evaluate", model, *files)
    assert out.startswith(f"BLEU {bleu.score:.2f}  (nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert f"\nchrF {chrf.score:.2f}  (nrefs:1|" in out
    assert re.fullmatch(r"regard: .*: 4 lines in [0-9.]+ s on cpu \(ctranslate2\), [0-9.]+ a second\n", err)
    assert run_regard("evaluate", model, *files, "--quiet")[1] == ""
    found = json.loads(run_regard("evaluate", model, *files, "--format", "json")[0])
    assert (found["bleu"], found["chrf"], found["lines"]) == (bleu.score, chrf.score, 4)


def test_evaluate_against_a_file_and_against_a_model(model, corpus, run_regard):
    files = ("--source", "test.fr", "--target", "test.en")
    Path("other.txt").write_text(Path("test.en").read_text())
    found = json.loads(run_regard("evaluate", model, *files, "--against", "other.txt", "--format", "json")[0])[
        "against"
    ]
    assert found["name"] == "other.txt" and round(found["bleu"]["second"], 6) == 100
    assert run_regard("evaluate", model, *files, "--against", model)[0].count("p = 1.0000: not significant") == 2
    Path("other.txt").write_text("one\ntwo\n")
    _, err = run_regard("evaluate", model, *files, "--against", "other.txt", code=2)
    assert err == "regard: other.txt has 2 lines but test.fr has 4; they must match\n"


@pytest.mark.parametrize(
    "wrong, named",
    [
        (("--against", "missing.txt"), "missing.txt"),
        (("--against", "short.txt"), "short.txt has 2 lines"),
        (("--against", "fashion"), "fashion"),
        (("--tokenize", "moss"), "moss"),
    ],
)
def test_what_can_be_known_is_refused_before_anything_is_translated(
    wrong, named, model, corpus, run_regard, monkeypatch
):
    from regard.task.translate import Translator

    Path("short.txt").write_text("one\ntwo\n")
    monkeypatch.setattr(Translator, "translate", lambda *given, **more: pytest.fail("it translated first"))
    _, err = run_regard("evaluate", model, "--source", "test.fr", "--target", "test.en", *wrong, code=2)
    assert named in err and err.count("\n") == 1


def test_unequal_and_empty_files_are_refused_with_both_numbers(model, corpus, run_regard):
    Path("short.en").write_text("one\ntwo\n")
    _, err = run_regard("evaluate", model, "--source", "test.fr", "--target", "short.en", code=2)
    assert "4 lines" in err and "2" in err and err.count("\n") == 1
    Path("empty").touch()
    assert "empty" in run_regard("evaluate", model, "--source", "empty", "--target", "empty", code=2)[1]


def test_train_resume_and_fine_tune(corpus, run_regard):
    Path("train.fr").write_text("".join(f"{LINES[i % 4]} {i}\n" for i in range(80)))
    Path("train.en").write_text("".join(f"line {i % 4} number {i}\n" for i in range(80)))
    settings = ["tokenizer.kind=word", "model.width=16", "model.heads=2", "model.layers=1", "model.feed_forward=16"]
    settings += ["training.warmup=1", "training.average=1", "training.batch_tokens=200", "data.drop_duplicates=false"]
    valid = ("--valid-source", "test.fr", "--valid-target", "test.en")
    files = ("--source", "train.fr", "--target", "train.en", "--device", "cpu", "--quiet")
    out, err = run_regard("train", "--task", "translate", *files, *valid, "--steps", "2", "--output", "run", *settings)
    assert "model: run/model" in out and err == ""
    recipe = read_recipe("run")
    assert (recipe.training.steps, recipe.training.device) == (2, "cpu")
    assert [Path(path).name for path in recipe.data.valid_source] == ["test.fr"]
    run_regard("train", "--resume", "run", "--steps", "3", "--quiet")
    assert read_recipe("run").training.steps == 3
    run_regard("train", "--start", "run", *files, "--steps", "1", "--output", "tuned", *settings[5:])
    assert read_recipe("tuned").model == recipe.model
    assert run_regard("translate", "--model", "tuned", "elle a lu", "")[0].count("\n") == 2
    _, err = run_regard("train", *files, "--output", "run", code=2)
    assert err.startswith("regard: run already holds a run")
