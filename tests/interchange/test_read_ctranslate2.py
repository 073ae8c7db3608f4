"""A CTranslate2 folder, read, says what CTranslate2 says."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from regard.assemble import build_model
from regard.data.batching import pad
from regard.decoding.greedy import greedy
from regard.decoding.rules import MinLength
from regard.interchange.read.ctranslate2 import read
from regard.loading import assign_weights
from regard.types import BEGIN, END

pytest.importorskip("ctranslate2")
pytest.importorskip("transformers")
from tests.interchange import made_ctranslate2 as made

LENGTH = 14


def model_of(imported):
    model = build_model(imported.recipe.model, **imported.tokenizer.sizes()).eval()
    assign_weights(model, imported.weights, "the imported model")
    return model


@torch.no_grad()
def check(folder: Path, count: int) -> None:
    imported = read(folder, lambda text: None)
    model, tokenizer, theirs = model_of(imported), imported.tokenizer, made.translator(folder)
    sources = [tokenizer.encode(text) for text in made.sentences(count)]
    assert len({i for ids in sources for i in ids}) > 40
    spelled = [tokenizer.pieces(ids) + (["</s>"] if imported.recipe.data.source_end else []) for ids in sources]
    if "add_source_eos\": true" in (folder / "config.json").read_text():
        spelled = [tokenizer.pieces(ids) for ids in sources]
    ids, mask = pad([[*one, END] if imported.recipe.data.source_end else one for one in sources])
    lengths = torch.full((count,), LENGTH)
    ours = greedy(model.decoder, model.encode(ids, mask), max_lengths=lengths, rules=[MinLength(1)])
    texts = [tokenizer.target.pieces(one.ids) for one in ours]
    found = theirs.translate_batch(spelled, beam_size=1, max_decoding_length=LENGTH)
    assert [one.hypotheses[0] for one in found] == texts
    assert len({tuple(text) for text in texts}) > count // 3  # else it were easy to agree
    scored = theirs.score_batch(spelled[:5], texts[:5])
    target, _ = pad([[BEGIN, *one.ids, END] for one in ours[:5]])
    log_probs = model(ids[:5], mask[:5], target[:, :-1]).log_softmax(-1).gather(2, target[:, 1:, None])[..., 0]
    for row, (one, score) in enumerate(zip(ours, scored)):
        assert log_probs[row, : len(one.ids) + 1].tolist() == pytest.approx(score.log_probs, abs=1e-4)


@pytest.mark.parametrize("name", made.MODELS)
def test_models_of_transformers(name, tmp_path):
    check(made.converted(name, tmp_path), 200)


@pytest.mark.parametrize("separate", [True, False])
def test_models_of_opennmt(separate, tmp_path):
    check(made.opennmt(tmp_path / "model", separate=separate), 200)
