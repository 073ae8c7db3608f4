"""What the map is told of a model's work are the numbers of its trace."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.assemble import build_model, resolve_model
from regard.config import Recipe
from regard.data.tokenizer.character import Character
from regard.errors import UserError
from regard.loading import model_files
from regard.storage import write_folder
from regard.studio.questions import draw_view, flow

TEXT = "Je suis étudiant."


@pytest.mark.parametrize("name", ["fr-en-universal", "fr-en-luong"])
def test_tokens_weights_states_and_steps_are_those_of_the_trace(name: str):
    model = regard.load(name)
    told = json.loads(json.dumps(flow.answer(model, {"model": name, "text": TEXT}), allow_nan=False))
    trace = regard.inspect(model, TEXT)
    assert told["tokens"] == {"source": trace.source.tokens, "target": trace.read}
    assert told["counts"] == {"source": len(trace.source.tokens), "target": len(trace.read)}
    assert [one["token"] for one in told["outputs"]] == trace.target.tokens
    np.testing.assert_allclose([one["probability"] for one in told["outputs"]], trace.probabilities, atol=1e-3)
    assert [(one["path"], one["layer"]) for one in told["attention"]] == [(a.path, a.layer) for a in trace.attention]
    for one, layer in zip(told["attention"], trace.attention):
        np.testing.assert_allclose(one["weights"], layer.weights, atol=2e-3)
    for one, gates in zip(told["gates"], trace.gates, strict=True):
        np.testing.assert_allclose(np.array(one["states"]).T, gates.values["hidden"][:, : flow.UNITS], atol=2e-3)
    for one, ponder in zip(told["ponder"], trace.ponder, strict=True):
        np.testing.assert_allclose(one["times"], ponder.times, atol=2e-3)


def test_an_image_is_told_as_where_each_head_looks():
    model = regard.load("fashion")
    told = flow.answer(model, {"model": "fashion", "sample": "bag"})
    assert told["outputs"][0]["token"] == "bag" and told["counts"]["source"] == 50
    assert np.array(told["attention"][0]["weights"]).shape == (4, 7, 7)


def test_a_long_text_is_cut_and_an_empty_one_refused():
    model = regard.load("shakespeare")
    told = flow.answer(model, {"model": "shakespeare", "text": "ROMEO: " * 8})
    assert np.array(told["attention"][0]["weights"]).shape[1:] == (flow.MOST, flow.MOST)
    assert told["counts"]["target"] > flow.MOST and len(told["outputs"]) == 5
    with pytest.raises(UserError, match="type a sentence"):
        flow.answer(model, {"model": "shakespeare", "text": " "})


def test_of_hundreds_of_heads_one_block_is_told_in_full(tmp_path: Path):
    """The others are small pictures: the largest weights of their parts."""
    torch.manual_seed(1)
    tree = resolve_model({"kind": "language_model", "width": 16, "layers": 25, "heads": 8, "feed_forward": 8})
    tokenizer = Character.train([TEXT * 3], seed=1)
    model = build_model(tree, len(tokenizer))
    folder = tmp_path / "large"
    write_folder(
        folder, model_files(Recipe(task="generate", model=tree), tokenizer, dict(model.named_parameters()), "float32")
    )
    large = regard.load(folder, device="cpu")
    trace = regard.inspect(large, TEXT)
    request = {"model": "large", "text": TEXT}
    all_small = flow.answer(large, request)["attention"]
    assert len(json.dumps(all_small)) < 100_000 and all(one["pooled"] for one in all_small)
    for one, layer in zip(all_small, trace.attention, strict=True):
        assert np.array(one["weights"]).shape == (8, 8, 8)
        for shown, weights in zip(one["weights"], layer.weights):
            assert np.max(shown) == pytest.approx(weights[: flow.MOST, : flow.MOST].max(), abs=6e-3)
            assert shown[0][0] == pytest.approx(weights[:2, :2].max(), abs=6e-3)
    path = "decoder.layers.7.attention"
    chosen = flow.answer(large, request | {"block": path})["attention"]
    assert [one["path"] for one in chosen if not one.get("pooled")] == [path]
    np.testing.assert_allclose(chosen[7]["weights"], trace.attention[7].weights, atol=2e-3)
    overview = draw_view.answer(large, request | {"view": "heads", "only": 0})["pictures"][0]["svg"]
    assert overview.count('data-at="pick target') == 200 and len(overview) < 500_000
    assert "layer 24, head 7" in overview
