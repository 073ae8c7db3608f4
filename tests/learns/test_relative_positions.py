"""A model with T5's parts learns to reverse short texts in the ordinary trainer, and shows how it does it."""

import math

import numpy as np

import regard
from regard.inspection.trace.base import TARGET, Choice

T5 = [
    "model.head_width=8",
    "model.norm_kind=rms",
    "model.gated=true",
    "model.bias=false",
    "model.activation=silu",
    "model.relative_position=buckets",
    "model.position=none",
    "model.decoder.output_bias=true",
]


def test_it_learns_without_other_positions_and_can_be_looked_into(tmp_path):
    run = regard.train("fr-en", *T5, tiny=True, device="cpu", out=tmp_path / "run", quiet=True)
    assert run.scores["bleu"] > 60
    model = regard.load(tmp_path / "run" / "model", device="cpu", engine="torch")
    assert model.model.encoder.relative_position.table.weight.shape == (32, 4)
    found = model.translate("1 2 3 4", beam=3, alignment=True)
    assert found.text == "4 3 2 1" == run.model.translate("1 2 3 4").text
    trace = model.inspect("1 2 3 4", beam=3)
    for view in ("alignment", "heads", "steps", "numbers", "beam"):
        assert trace.svg(view)
    calculation = trace.calculation_of(Choice(attention=TARGET, layer=0, head=1, position=2))
    names = [stage.name for stage in calculation.stages]
    assert calculation.difference < 1e-5 and {"relative position", "rms norm"} <= set(names)
    for layer in trace.attention:
        np.testing.assert_allclose(layer.weights.sum(-1), 1, atol=1e-5)
    # Watched as a whole text, with a cache as beams: the same probability.
    assert math.isclose(found.log_probability, trace.log_probability, abs_tol=1e-3)
