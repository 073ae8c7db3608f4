"""Options of regard translate beyond plain beam search: what they do, and their mistakes."""

from __future__ import annotations

import json

import pytest

from tests.task.translators import FAMILIES, saved, translator_of


def test_they_reach_the_search(run_regard, tmp_path):
    translator = translator_of(FAMILIES["transformer"])
    model = saved(translator, tmp_path / "model")
    common = ("translate", "-m", model, "--precision", "float32", "--max-length", 9, "--json", "fed cab")
    for words, options in (
        (["--coverage-penalty", 2, "--beam-groups", 2, "--diversity-penalty", 3], {"coverage_penalty": 2.0}),
        (["--temperature", 1.5, "--seed", 7, "--prefix", "hi", "--n-best", 2], {"temperature": 1.5}),
    ):
        if "coverage_penalty" in options:
            options |= {"beam_groups": 2, "diversity_penalty": 3.0}
        else:
            options |= {"seed": 7, "prefix": "hi", "n_best": 2}
        found = json.loads(run_regard(*common, *words)[0])
        expected = translator.translate("fed cab", max_length=9, **options)
        assert (found["text"], found["score"]) == (expected.text, pytest.approx(expected.score, abs=1e-4))
        others = [one["text"] for one in found.get("alternatives", [])]
        assert others == [one.text for one in expected.alternatives]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("translate --temperature 1 --server http://127.0.0.1:1 x", "leave out --temperature"),
        ("translate --coverage-penalty 11 x", "--coverage-penalty"),
        ("evaluate fashion --beam-groups 2 x", "--beam-groups is for translators"),
    ],
)
def test_a_mistake_is_one_line(run_regard, words, told):
    _, err = run_regard(*words.split(), code=2)
    assert told in err and err.count("\n") == 1
