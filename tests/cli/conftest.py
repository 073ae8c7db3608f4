"""A model small enough to create for every test run: random weights, everything else real."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINES = ["je suis étudiant.", "où est la gare ?", "elle a lu ce livre deux fois.", "Oui, bien sûr !"]


@pytest.fixture(scope="session")
def model(tmp_path_factory) -> str:
    import torch

    from regard.assemble import build_model, resolve_model
    from regard.config import Decoding, Recipe
    from regard.data.tokenizer.word import Word
    from regard.loading import model_files
    from regard.storage import write_folder

    torch.manual_seed(10)
    shape = resolve_model({"layers": 1, "width": 16, "feed_forward": 32, "heads": 2})
    recipe = Recipe(model=shape, tokenizer={"kind": "word"}, decoding=Decoding(beam=2, max_length=12))
    tokenizer = Word.train(LINES, seed=1)
    # Three times the usual size: fresh weights would answer every sentence alike.
    weights = {n: 3 * w.detach() for n, w in build_model(shape, len(tokenizer)).named_parameters()}
    folder = tmp_path_factory.mktemp("models") / "random"
    write_folder(folder, model_files(recipe, tokenizer, weights, "float32"))
    return str(folder)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "regard", *arguments]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **more}


def regard(*arguments: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run(command(*arguments), env=environment(), capture_output=True, **options)


def imported(*words: str) -> tuple[str, set[str]]:
    """What a command writes, and the modules that its process has imported at the end."""
    code = f"import sys; sys.argv = ['regard', *{words!r}]\ntry:\n    import regard.cli; regard.cli.main()\n"
    code += "except SystemExit:\n    print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    out, _, modules = done.stdout.rstrip("\n").rpartition("\n")
    assert "regard.cli" in modules.split(), done.stderr
    return out, set(modules.split())
