"""regard score: what it prints, and its mistakes."""

from __future__ import annotations

import json

import pytest

from tests.task.translators import FAMILIES, saved, translator_of


def test_translations_from_files_arguments_and_lines(run_regard, tmp_path):
    (tmp_path / "s").write_text("abc\nfed cab\n", encoding="utf-8")
    (tmp_path / "t").write_text("hi\ngab ca\n", encoding="utf-8")
    translator = translator_of(FAMILIES["transformer"])
    model = saved(translator, tmp_path / "model")
    out, err = run_regard("score", model, "--source", tmp_path / "s", "--target", tmp_path / "t", "--words")
    expected = translator.score("fed cab", "gab ca")
    total, mean, perplexity, *words = out.splitlines()[1].split("\t")
    assert float(total) == pytest.approx(expected.log_probability, abs=1e-3)
    assert float(mean) == pytest.approx(expected.log_probability / len(expected.tokens), abs=1e-3)
    assert float(perplexity) == pytest.approx(expected.perplexity, rel=1e-3)
    assert [word.split()[0] for word in words] == ["gab", "ca"]
    assert "2 lines of 10 tokens" in err
    assert run_regard("score", model, "fed cab", "gab ca")[0].split("\t")[0] == total
    found = json.loads(run_regard("score", model, "--json", stdin="fed cab\tgab ca\n")[0])
    assert found["target"] == "gab ca" and [piece for piece, _ in found["tokens"]] == expected.tokens


def test_a_language_model_takes_text_alone(run_regard):
    out, _ = run_regard("score", "shakespeare", "To be", "or not")
    assert len(out.splitlines()) == 2
    assert "--source" in run_regard("score", "shakespeare", "--source", "x", code=2)[1]


@pytest.mark.parametrize(
    ("words", "stdin", "told"),
    [
        (["fashion", "x"], None, "is made to classify"),
        (["fr-en", "x"], None, "regard score fr-en TEXT TRANSLATION"),
        (["fr-en", "--target", "x"], None, "name both"),
        (["fr-en", "x", "y", "--source", "z"], None, "not both"),
        (["fr-en"], "Oui.\tYes.\nNon.\n", "line 2 has no tab"),
    ],
)
def test_a_mistake_is_one_line(run_regard, words, stdin, told):
    _, err = run_regard("score", *words, code=2, stdin=stdin)
    assert told in err and err.count("\n") == 1
