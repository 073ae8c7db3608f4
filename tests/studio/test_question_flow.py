"""What the map is told of a model's work are the numbers of its trace."""

from __future__ import annotations

import json

import numpy as np
import pytest

import regard
from regard.errors import UserError
from regard.studio.questions import flow

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
