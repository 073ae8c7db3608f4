"""`regard average`: the mean of the weights, and nothing that cannot be averaged."""

from __future__ import annotations

import torch

from regard.storage import read_folder
from tests.serving.multilingual import write_multilingual


def test_the_mean_of_the_weights(tmp_path, run_regard):
    made = [write_multilingual(tmp_path / f"{seed}", seed=seed) for seed in (1, 2, 3)]
    out, _ = run_regard("average", *made, "-o", tmp_path / "mean")
    assert "the mean of 3 models" in out
    weights = [read_folder(folder).weights() for folder in made]
    for name, mean in read_folder(tmp_path / "mean").weights().items():
        wanted = torch.stack([one[name].double() for one in weights]).mean(0)
        torch.testing.assert_close(mean.double(), wanted, rtol=1e-6, atol=1e-7)
    assert (tmp_path / "mean" / "recipe.toml").read_bytes() == (made[2] / "recipe.toml").read_bytes()
    assert "already exists" in run_regard("average", *made, "-o", tmp_path / "mean", code=2)[1]


def test_what_cannot_be_averaged(tmp_path, run_regard):
    one = write_multilingual(tmp_path / "one")
    assert "at least two" in run_regard("average", one, "-o", tmp_path / "new", code=2)[1]
    assert "fr-en: has other parts than" in run_regard("average", "fr-en", one, "-o", tmp_path / "new", code=2)[1]
    assert not (tmp_path / "new").exists()
