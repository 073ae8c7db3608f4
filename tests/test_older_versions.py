"""Model folders and checkpoints written by earlier versions still load, answer and resume as they did then.

tests/older_versions/VERSION was written by that version, `expected.json` by its `load`; nothing in it is ever rewritten.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.storage import read_folder

FOLDER = Path(__file__).parent / "older_versions"


@pytest.fixture(params=sorted(path.name for path in FOLDER.iterdir()))
def version(request: pytest.FixtureRequest) -> Path:
    return FOLDER / request.param


@pytest.mark.parametrize("name", ["translator", "universal"])
def test_a_translator_answers_as_before(version: Path, name: str) -> None:
    expected = json.loads((version / "expected.json").read_text())[name]
    found = regard.load(version / name, device="cpu", engine="torch").translate(
        [one["source"] for one in expected], beam=3
    )
    assert [one.text for one in found] == [one["text"] for one in expected]
    np.testing.assert_allclose(
        [one.log_probability for one in found], [one["log_probability"] for one in expected], atol=1e-4
    )


def test_a_tracker_answers_as_before(version: Path) -> None:
    expected = json.loads((version / "expected.json").read_text())["tracker"]
    clip = (np.random.default_rng(0).random((5, 16, 16, 1)) * 255).astype(np.uint8)
    found = regard.load(version / "tracker", device="cpu").track(clip)
    np.testing.assert_allclose(found.places, expected, atol=1e-4)


def test_a_checkpoint_resumes_to_the_weights_it_led_to_then(version: Path, tmp_path: Path) -> None:
    """The run stopped at half its steps; `translator` is what the same run became when it went on at once."""
    run = shutil.copytree(version / "run", tmp_path / "run")
    torch.set_num_threads(1)  # as then: sums of several threads are rounded otherwise
    regard.train(resume=run)
    expected, found = (read_folder(folder).weights() for folder in (version / "translator", run / "model"))
    assert expected.keys() == found.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, atol=1e-5, rtol=1e-4)
