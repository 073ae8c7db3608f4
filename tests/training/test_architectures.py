"""Every encoder and every decoder, fed by real packed text through background threads, resumes exactly (R1, R2, R8)."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest
import torch
from torch import Tensor

from regard import registry
from regard.assemble import build_model
from regard.config import Training
from regard.data.batching import Batches
from regard.data.corpus.pack import Pack, pack_pairs
from regard.data.tokenizer.character import Character
from regard.training.listener import Listener, Quiet
from regard.training.trainer import Trainer
from regard.weights import save_weights
from tests.training.laws import MakeTrainer, last, resume_is_exact, trained

ENCODERS = registry.kinds("encoder")
DECODERS = [kind for kind in registry.kinds("decoder") if kind != "independent_keys"]  # which reads no source
KINDS = list(zip(ENCODERS, itertools.cycle(DECODERS))) + list(zip(itertools.cycle(ENCODERS), DECODERS[len(ENCODERS) :]))
STEPS, VOCABULARY = 24, 300


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Pack:
    chance = random.Random(0)
    lines = ["".join(chance.choices("abcdef ", k=chance.randint(4, 12))).strip() + "." for _ in range(60)]
    encode = Character.train(lines, seed=1).encode_many
    folder = tmp_path_factory.mktemp("text") / "pack"
    return pack_pairs([(line, line[::-1]) for line in lines], encode, encode, folder, vocabulary=VOCABULARY)


def maker(pack: Pack, encoder: str, decoder: str, workers: int = 1) -> MakeTrainer:
    """An epoch is some eight batches, read in windows of 32 pairs: the run crosses both kinds of border."""
    settings = Training(
        steps=STEPS, save_every=4, validate_every=1000, warmup=4, batch_tokens=160, keep=2, average=2, device="cpu"
    )

    def files(weights: dict[str, Tensor]) -> dict[str, bytes]:
        return {"weights.safetensors": save_weights(weights)}

    def make(folder: Path, report: Listener) -> Trainer:
        torch.manual_seed(5)
        model = build_model(
            {"preset": "tiny", "width": 16, "layers": 1, "dropout": 0.2, "encoder": encoder, "decoder": decoder},
            VOCABULARY,
            0.1,
        )
        stream = Batches(pack, batch_tokens=160, seed=2, window=32, workers=workers)
        return Trainer(model, stream, folder, settings, seed=7, model_files=files, report=report)

    return make


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("encoder", "decoder"), KINDS)
def test_every_architecture_resumes_exactly(encoder: str, decoder: str, kills: int, pack: Pack) -> None:
    resume_is_exact(maker(pack, encoder, decoder), kills=kills, seed=kills)


def test_worker_threads_change_nothing(pack: Pack, tmp_path: Path) -> None:
    for workers in (0, 1, 3):
        trained(maker(pack, *KINDS[0], workers=workers), tmp_path / str(workers), Quiet())
    assert len({last(tmp_path / str(workers)).hash for workers in (0, 1, 3)}) == 1
