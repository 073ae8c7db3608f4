"""A tiny model that has learnt a little, in a folder, and a cache of its own for every test."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.assemble import build_model, resolve_model
from regard.config import Recipe
from regard.data.batching import pad
from regard.data.tokenizer.subword import Subword
from regard.errors import UserError
from regard.loading import load, model_files
from regard.storage import write_folder
from regard.types import BEGIN, END, Batch

LINES = [
    "je suis étudiant.", "où est la gare ?", "elle a lu ce livre deux fois.", "Oui, bien sûr !", "le train est parti",
    "nous avons perdu les clés de la maison", "il pleut depuis trois jours", "la mer est calme ce matin, mes amis",
]  # fmt: skip
ROOT = Path(__file__).parents[2]
SHAPE = {"width": 32, "heads": 4, "layers": 2, "feed_forward": 64, "dropout": 0.0, "norm": "pre", "decoder": {"tie": False}}  # fmt: skip


def sentences(count: int = 12, longest: int = 8, seed: int = 0) -> list[str]:
    draw, words = random.Random(seed), " ".join(LINES).split()
    return [" ".join(draw.choices(words, k=draw.randint(1, longest))) for _ in range(count)]


@cache
def tokenizer() -> Subword:
    return Subword.train(LINES, seed=1, size=330)


@cache
def trained(steps: int = 120) -> dict[str, torch.Tensor]:
    """Weights after a short training on reversing the words of a text: far from sure, but its outputs end."""
    torch.manual_seed(1)
    torch.set_num_threads(1)  # so small a model is slower with more
    model: Any = build_model(resolve_model(SHAPE), len(tokenizer()))
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    for step in range(steps):
        lines = sentences(32, seed=step)
        sources = [[*tokenizer().encode(line), END] for line in lines]
        targets = [[BEGIN, *tokenizer().encode(" ".join(reversed(line.split()))), END] for line in lines]
        (source, source_mask), (target, target_mask) = pad(sources), pad(targets)
        target_mask[:, 0] = False
        loss = model.loss(Batch(source, source_mask, target, target_mask, int(target_mask.sum())))
        optimizer.zero_grad()
        (loss.total / loss.units).backward()
        optimizer.step()
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def make_folder(place: Path, precision: str = "float32", **changed: torch.Tensor) -> Path:
    """The model in a new folder; `changed` are weights by name, with _ for dots."""
    known = {name.replace(".", "_"): name for name in trained()}
    weights = {**trained(), **{known[name]: weight for name, weight in changed.items()}}
    recipe = Recipe(model=resolve_model(SHAPE), source_language="fr", target_language="en")
    write_folder(place, model_files(recipe, tokenizer(), weights, precision))
    return place


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch) -> Path:
    place = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("REGARD_CACHE", str(place))
    return place


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    return make_folder(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def right(folder) -> list[str]:
    """What torch answers, greedily, to the first lines."""
    found = [one.text for one in load(folder, "cpu").translate(LINES[:3], beam=1)]
    assert len(set(found)) == 3
    return found


def entries(own_cache: Path) -> list[Path]:
    """The entries of the cache, which holds nothing else but its lock."""
    found = sorted((own_cache / "ctranslate2").iterdir())
    assert found.pop().name == "lock"
    assert all(len(path.name) == 32 for path in found)
    return found


def environment(**more: str) -> dict[str, str]:
    """Of a child process, on one thread. An empty value removes a variable."""
    one = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return {name: value for name, value in {**os.environ, **one, **more}.items() if value}


def refusal(action: Callable[[], object]) -> str:
    """The one line with which something is refused."""
    with pytest.raises(UserError) as refused:
        action()
    message = str(refused.value)
    assert "\n" not in message and len(message) < 500
    return message
