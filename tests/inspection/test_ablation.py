"""BLEU without each head is that of a model whose head has zero columns; nothing stays switched off."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from inspection.test_record_translation import LINES, made

from regard.errors import UserError
from regard.evaluation.translation import corpus_scores
from regard.inspection.ablation import ablate, parts_to_ablate

SOURCES, REFERENCES = LINES, ["je est", "la gare ?", "elle elle lu", "oui oui ."]


def test_scores_are_those_of_models_without_the_head() -> None:
    translator = made("transformer")
    rows = list(ablate(translator, SOURCES, REFERENCES, beam=1, max_length=4))
    plain = [one.text for one in translator.translate(SOURCES, beam=1, max_length=4)]
    assert rows[0].part == "" and rows[0].bleu == corpus_scores(plain, REFERENCES).bleu
    assert len(rows) == 1 + 2 * 4 + 2 * 2 * 4
    for row in (rows[1], max(rows, key=lambda one: one.changed)):
        side, layer, kind, _, head = row.part.split(".")
        copy = deepcopy(translator)
        module = getattr(copy.model, side).layers[int(layer)]
        attention = module.cross_attention if kind == "cross" else module.attention
        with torch.no_grad():
            attention.outward.weight[:, 4 * int(head) : 4 * int(head) + 4] = 0
        own = [one.text for one in copy.translate(SOURCES, beam=1, max_length=4)]
        scores = corpus_scores(own, REFERENCES)
        assert (row.bleu, row.chrf) == (scores.bleu, scores.chrf)
        assert row.changed == sum(one != other for one, other in zip(own, plain))
        assert row.difference == row.bleu - rows[0].bleu


@pytest.mark.parametrize("shape", ["none", "universal"])
def test_layers_and_means(shape) -> None:
    translator = made(shape)
    lines = [0]
    rows = list(ablate(translator, SOURCES, REFERENCES, True, True, lambda n: lines.append(n), beam=1, max_length=3))
    assert [row.part for row in rows[1:]] == list(map(str, parts_to_ablate(translator, True)))
    assert sum(lines) == len(rows) * len(SOURCES)
    if shape == "none":
        with pytest.raises(UserError, match="no heads; try --layers"):
            parts_to_ablate(translator, False)
