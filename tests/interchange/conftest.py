"""A tiny model in another program's format, and a cache of its own for every test."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from regard.assemble import build_model, resolve_model
from regard.config import Recipe
from regard.data.tokenizer.subword import Subword
from regard.interchange import export
from regard.loading import model_files
from regard.storage import write_folder

LINES = ["ich bin hier.", "das Haus ist klein", "wo ist der Bahnhof?", "sie las das Buch zweimal"]
SHAPE = {"width": 16, "heads": 2, "layers": 2, "feed_forward": 32, "dropout": 0.0}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder with random weights that states no languages."""
    tokenizer = Subword.train(LINES * 5, seed=1, size=300)
    torch.manual_seed(1)
    weights = dict(build_model(resolve_model(SHAPE), len(tokenizer)).named_parameters())
    place = tmp_path_factory.mktemp("ours") / "tiny"
    recipe = Recipe(model=resolve_model(SHAPE), tokenizer={"kind": "subword"})
    write_folder(place, model_files(recipe, tokenizer, weights, "float32"))
    return place


@pytest.fixture(scope="session")
def foreign(ours: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same as a CTranslate2 folder."""
    return export(ours, tmp_path_factory.mktemp("foreign") / "tiny-de-en", format="ctranslate2", precision="float32")
