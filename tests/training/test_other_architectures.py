"""Every kind of model, fed examples of its kind, resumes exactly (R1): pictures that are changed by chance, clips, words
that are hidden by chance, texts, series."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from regard import registry
from regard.assemble import build_model
from regard.config import Training
from regard.data.examples import Coded, ExampleBatches, collate
from regard.training.listener import Listener
from regard.training.trainer import Trainer
from regard.types import BEGIN, END, Validation
from regard.weights import save_weights
from tests.training.laws import MakeTrainer, resume_is_exact

VOCABULARY, LABELS, SIZE, FEATURES = 20, 3, 12, 2
TRANSFORMER = {"kind": "transformer", "layers": 1, "heads": 2, "feed_forward": 16}

Random = np.random.Generator


def picture(random: Random) -> np.ndarray:
    return random.standard_normal((1, SIZE, SIZE)).astype(np.float32)


def words(random: Random) -> np.ndarray:
    return random.integers(END + 1, VOCABULARY, random.integers(3, 9))


def text(random: Random) -> Coded:
    ids = np.array([BEGIN, *words(random), END])
    return Coded(np.zeros(0, np.int64), ids, ids != BEGIN)


def all_wanted(source: np.ndarray, target: np.ndarray) -> Coded:
    return Coded(source, target, np.ones(len(target), dtype=bool))


def labelled(random: Random) -> Coded:
    return all_wanted(picture(random), random.integers(LABELS, size=1))


def captioned(random: Random) -> Coded:
    return text(random)._replace(source=picture(random))


def tracked(random: Random) -> Coded:
    frames = int(random.integers(2, 5))
    source = np.stack([picture(random) for _ in range(frames)])
    return all_wanted(source, random.random((frames, 2)).astype(np.float32))


def hidden(random: Random) -> Coded:
    ids = words(random)
    return all_wanted(ids, np.zeros(1 + len(ids) // 6, np.int64))


def tagged(random: Random) -> Coded:
    ids = words(random)
    return all_wanted(ids, random.integers(LABELS, size=len(ids)))


def forecast(random: Random) -> Coded:
    series = random.standard_normal((8, FEATURES)).astype(np.float32)
    return all_wanted(series[:6], series[6:])


@dataclass
class Case:
    model: dict[str, Any]
    example: Callable[[Random], Coded]
    sizes: dict[str, int]
    stacked: bool = False
    training: dict[str, Any] = field(default_factory=dict)


PIXELS = {"channels": 1, "size": SIZE}
CASES = {
    "classifier": Case(  # a Vision Transformer
        {"stem": {"kind": "patches", "augment": "flip shift erase"}, "encoder": TRANSFORMER, "pooling": "first"},
        labelled,
        {**PIXELS, "labels": LABELS},
        stacked=True,
        training={"ema": 0.9},
    ),
    "seq2seq": Case(  # a captioner
        {"stem": {"kind": "grid", "stages": 2}, "encoder": "none", "decoder": "attentional"},
        captioned,
        {**PIXELS, "vocabulary": VOCABULARY},
        stacked=True,
    ),
    "tracker": Case(  # CNN + LSTM
        {"stem": {"kind": "clips", "filters": 2}, "encoder": {"kind": "recurrent", "direction": "forward"}},
        tracked,
        PIXELS,
    ),
    "language_model": Case({"decoder": TRANSFORMER}, text, {"vocabulary": VOCABULARY}),
    "masked_language_model": Case({"encoder": TRANSFORMER}, hidden, {"vocabulary": VOCABULARY}),
    "tagger": Case({"encoder": {"kind": "recurrent"}}, tagged, {"vocabulary": VOCABULARY, "labels": LABELS}),
    "crf_tagger": Case({"encoder": TRANSFORMER}, tagged, {"vocabulary": VOCABULARY, "labels": LABELS}),
    "forecaster": Case(
        {"stem": "features", "encoder": {"kind": "recurrent"}, "window": 6, "horizon": 2},
        forecast,
        {"features": FEATURES},
    ),
}


def maker(kind: str) -> MakeTrainer:
    """Thirty examples in batches of six: a run of twenty steps crosses four epochs."""
    case = CASES[kind]
    random = np.random.default_rng(4)
    examples = [case.example(random) for _ in range(30)]
    settings = Training(
        steps=20, save_every=4, validate_every=8, warmup=4, keep=2, average=2, device="cpu", **case.training
    )

    def validate(model: nn.Module) -> Validation:
        torch.rand(3)  # must not matter to the run
        found = model.loss(collate(examples[:4], not case.stacked))  # type: ignore[operator]
        return Validation({"loss": float(found.total) / found.units})

    def files(weights: dict[str, Tensor]) -> dict[str, bytes]:
        return {"weights.safetensors": save_weights(weights)}

    def make(folder: Path, report: Listener) -> Trainer:
        torch.manual_seed(5)
        model = build_model(
            {"width": 16, "dropout": 0.2, **case.model, "kind": kind}, label_smoothing=0.1, **case.sizes
        )
        stream = ExampleBatches(
            lambda epoch: examples, varying=not case.stacked, batch_tokens=64, batch_examples=6, seed=2
        )
        return Trainer(
            model,
            stream,
            folder,
            settings,
            seed=7,
            model_files=files,
            validate=validate,
            better={"loss": "lower"},
            report=report,
        )

    return make


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", CASES)
def test_every_kind_of_model_resumes_exactly(kind: str, kills: int) -> None:
    resume_is_exact(maker(kind), kills=kills, seed=kills)


def test_no_kind_of_model_is_left_out() -> None:
    assert sorted(CASES) == registry.kinds("model")


def test_chance_is_part_of_the_run() -> None:
    """Else it would prove little: the picture model sees the same batch differently each time."""
    torch.manual_seed(1)
    case = CASES["classifier"]
    model = build_model(
        {"width": 16, "dropout": 0.0, **case.model, "kind": "classifier", "head_dropout": 0.0}, **case.sizes
    )
    random = np.random.default_rng(0)
    batch = collate([case.example(random) for _ in range(4)], varying=False)
    assert model.loss(batch).total.item() != model.loss(batch).total.item()
    model.eval()
    assert model.loss(batch).total.item() == model.loss(batch).total.item()
