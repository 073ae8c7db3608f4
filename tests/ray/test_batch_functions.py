"""`regard.ray.Translator` and `Task` on batches, without Ray; on a cluster they are run by the page docs/bulk.md."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import regard
import regard.ray
from regard.errors import UserError

from .conftest import LINES


def test_a_column_is_added_and_the_others_stay(model: str) -> None:
    translator = regard.ray.Translator(model, "fr", "en", beam=1)
    batch = {"id": np.arange(4), "fr": np.array(LINES, dtype=object)}
    found = translator(batch)
    alone = regard.load(model, precision="auto").translate(LINES, beam=1)
    assert list(found) == ["id", "fr", "en"] and found["en"].tolist() == [one.text for one in alone]
    assert found["id"] is batch["id"] and "en" not in batch
    scores = regard.ray.Task(model, "fr", "fr", lambda one: one.score, beam=1)(batch)["fr"]
    assert scores.tolist() == [one.score for one in alone]
    with pytest.raises(UserError, match="no column text but id, fr"):
        regard.ray.Task(model)(batch)
    with pytest.raises(UserError, match="this model is made to generate, not to translate"):
        regard.ray.Translator("shakespeare")


def test_ray_is_not_imported_before_it_is_used() -> None:
    code = "import sys, regard.ray, regard.cli.translate, regard.ray.bulk\nprint('ray' in sys.modules, 'pyarrow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"
