"""Looking inside imported models: attention and probabilities are those that transformers reports, and every view of
theirs can be drawn."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from regard.inspection.record.decoding_step import decoding_step
from regard.inspection.trace.base import CROSS, SOURCE, TARGET, Choice
from regard.types import BEGIN, END
from tests.interchange.made_folders import VARIANTS
from tests.interchange.test_families import PAIRS, made_pair

TEXT = "der alte Mann und das Haus"


@pytest.mark.parametrize(
    "name", ["marian separate", "nllb sentencepiece", "mbart", "bart", "pegasus", "t5 v1.1", "mt5"]
)
def test_what_is_seen_is_what_transformers_computes(name: str, tmp_path: Any) -> None:
    maker, changes = VARIANTS[name]
    theirs, tokenizer = maker(tmp_path, **changes)
    pair = made_pair(name, theirs, tokenizer, tmp_path)
    languages = dict(zip(("source", "target"), PAIRS.get(name, ())))
    trace = pair.ours.inspect(TEXT, beam=2, max_length=6, **languages)
    (told,) = pair.ours.marks([TEXT], **languages)
    source = pair.ours.encode(TEXT, told)
    source = source if END in source else [*source, END]
    assert trace.source.tokens == pair.ours.tokenizer.pieces(source)

    # The same ids there: each of ours is a row of theirs.
    rows, wrote = pair.text.source.rows, pair.text.target.rows
    read = [BEGIN, *trace.ids[: len(trace.target.tokens) - 1]]
    theirs.set_attn_implementation("eager")
    with torch.no_grad():
        output = theirs(
            input_ids=torch.tensor([[rows[id] for id in source]]),
            decoder_input_ids=torch.tensor([[wrote[id] for id in read]]),
            output_attentions=True,
        )
    for kind, found in (
        (CROSS, output.cross_attentions),
        (SOURCE, output.encoder_attentions),
        (TARGET, output.decoder_attentions),
    ):
        mine = trace.of_kind(kind)
        assert len(mine) == len(found) > 0
        for layer, weights in zip(mine, found):
            np.testing.assert_allclose(layer.weights, weights[0].numpy(), atol=1e-4)
    ids = [*trace.ids, END][: len(trace.target.tokens)]
    sure = output.logits[0].softmax(-1)[torch.arange(len(ids)), [wrote[id] for id in ids]]
    np.testing.assert_allclose(trace.probabilities, sure, atol=1e-4)

    step = decoding_step(pair.ours, TEXT, trace.ids[:2], told=told)
    np.testing.assert_allclose(step.probabilities[0], trace.probabilities[0], atol=1e-4)
    calculation = trace.calculation_of(Choice(layer=0, head=1, attention=SOURCE, position=2))
    np.testing.assert_allclose(calculation.weights, output.encoder_attentions[0][0, 1, 2], atol=1e-4)
    names = [stage.name for stage in calculation.stages]
    assert ("relative position" in names) == ("rms norm" in names) == ("t5" in name)
    for view in ("alignment", "heads", "beam"):
        ElementTree.fromstring(trace.svg(view))
    assert len(trace.search) >= len(trace.probabilities) - len(told.prefix)
