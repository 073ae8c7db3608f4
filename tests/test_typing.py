"""A type checker knows the public API: mypy over a small program that uses it (tests/typing/public_api.py).

Libraries that are large and say nothing about our own signatures are left out, which makes it a matter of seconds.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from regard.config import read_recipe
from regard.engines import loading
from regard.pretrained import shipped_models

ROOT = Path(__file__).parents[1]
SETTINGS = """
[mypy]
python_version = 3.11
warn_unused_ignores = True
[mypy-torch.*,matplotlib.*,transformers.*,sacrebleu.*,safetensors.*,rich.*,pydantic.*]
follow_imports = skip
ignore_missing_imports = True
[mypy-sentencepiece.*,zstandard.*,tensorboard.*,soundfile.*,mido.*,ctranslate2.*,fasttext.*,triton.*]
ignore_missing_imports = True
[mypy-regard.*]
follow_imports = silent
"""


def test_a_typed_program_that_uses_the_public_api(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    settings = tmp_path / "mypy.ini"
    settings.write_text(SETTINGS)
    command = [sys.executable, "-m", "mypy", "--config-file", settings, "--cache-dir", tmp_path / "cache"]
    done = subprocess.run(
        [*map(str, command), "tests/typing/public_api.py"], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_load_knows_the_task_of_every_shipped_model_by_its_name() -> None:
    """A new model needs its name in an overload of `load`."""
    known = {
        **dict.fromkeys(get_args(loading.Translators), "translate"),
        **dict.fromkeys(get_args(loading.Generators), "generate"),
        "fashion": "classify",
        "shapes": "caption",
    }
    assert known == {name: read_recipe(folder / "recipe.toml").task for name, folder in shipped_models().items()}
