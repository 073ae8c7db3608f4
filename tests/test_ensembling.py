"""Ensembles: against the mean of probabilities spelled out, one model with itself, and what is refused."""

from __future__ import annotations

import math

import pytest
import torch

import regard
from regard.errors import UserError
from regard.model._ensemble import mean_logits
from regard.types import END
from tests.task.translators import FAMILIES, TEXTS, saved, translator_of


def test_the_logits_are_those_of_the_mean_of_probabilities() -> None:
    logits = [torch.randn(3, 2, 9) * 5 for _ in range(3)]
    logits[1][0, 0, 2] = -torch.inf
    for one in logits:
        one[1, 1, 4] = -torch.inf
    expected = sum(one.softmax(-1) for one in logits) / 3
    assert torch.allclose(mean_logits(logits).softmax(-1), expected, atol=1e-6)
    assert torch.equal(mean_logits([logits[1]] * 4), logits[1])
    huge = [torch.tensor([0.0, -1e9]), torch.tensor([0.0, -1.0])]  # an output bias that excludes a token
    assert mean_logits(huge).softmax(-1)[1] == pytest.approx(0.5 / (1 + math.e), rel=1e-4)


@pytest.mark.parametrize("tree", FAMILIES.values(), ids=FAMILIES)
def test_one_model_with_itself_is_that_model(tree: dict) -> None:
    translator = translator_of(tree)
    twice = regard.ensemble(translator, translator)
    for beam, texts in ((3, TEXTS), (1, TEXTS[:1])):
        options = {"beam": beam, "n_best": beam, "max_length": 7}
        assert twice.translate(texts, **options) == translator.translate(texts, **options)


def test_different_architectures_together() -> None:
    """Each token has the logarithm of the mean of the members' probabilities, in a search and read at once."""
    members = [translator_of(tree, seed) for seed, tree in enumerate(FAMILIES.values())]
    together = regard.ensemble(*members)
    found = together.translate(TEXTS, beam=3, n_best=2, max_length=9)
    hypotheses = [(one.source, each) for one in found for each in (one, *one.alternatives) if each.finished]
    assert len(hypotheses) >= 4
    for source, one in hypotheses:
        ids = [together.tokenizer.id_of(piece) for piece in one.tokens] + [END]
        sources, targets = [together.encode(source)], [ids]
        scores = [member.token_log_probs(sources, targets)[0] for member in members]
        expected = [math.log(sum(map(math.exp, column)) / len(members)) for column in zip(*scores)]
        assert together.token_log_probs(sources, targets)[0] == pytest.approx(expected, abs=1e-4)
        assert one.log_probability == pytest.approx(sum(expected), abs=1e-4)
    alone = together.translate(TEXTS[2], beam=3, n_best=2, max_length=9)
    assert (alone.text, alone.score) == (found[2].text, pytest.approx(found[2].score, abs=1e-5))


def test_an_alignment_is_the_mean_over_all_models() -> None:
    members = [translator_of(FAMILIES[name], 3) for name in ("transformer", "bahdanau")]
    found = regard.ensemble(*members).translate("abc def", max_length=6, alignment=True)
    assert found.attention is not None and found.attention.shape[1] == 2


def test_the_command_line_and_its_mistakes(run_regard, tmp_path) -> None:
    one, other = translator_of(FAMILIES["transformer"]), translator_of(FAMILIES["transformer"], alphabet="xyz")
    with pytest.raises(UserError, match="model 2 has another source vocabulary than the first model"):
        regard.ensemble(one, other)
    with pytest.raises(UserError, match="inspect one of its models"):
        regard.ensemble(one, one).inspect("abc")
    saved(one, tmp_path / "one"), saved(other, tmp_path / "other")
    models = ("--model", tmp_path / "one", "--model")
    _, err = run_regard("translate", *models, tmp_path / "other", "abc", code=2)
    assert "other has another source vocabulary" in err and err.count("\n") == 1
    _, err = run_regard("translate", *models, tmp_path / "one", "--engine", "ctranslate2", "abc", code=2)
    assert "cannot compute an ensemble" in err
    (tmp_path / "source").write_text("abc\nfed\n")
    files = (tmp_path / "source", tmp_path / "source")
    told = "BLEU", "chrF"
    alone, _ = run_regard("evaluate", tmp_path / "one", *files, "--engine", "torch", "--quiet")
    twice, _ = run_regard("evaluate", *models, tmp_path / "one", *files, "--quiet")
    assert alone == twice and all(one in alone for one in told)
    out, _ = run_regard("score", *models, tmp_path / "one", "abc", "hi")
    assert out == run_regard("score", tmp_path / "one", "abc", "hi")[0]
