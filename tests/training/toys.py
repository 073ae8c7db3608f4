"""Small models with dropout, a seeded stream of batches and processes that die, for the training tests."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.config import Training
from regard.training.listener import Listener, Log, Quiet
from regard.training.trainer import Trainer
from regard.types import BEGIN, END, PAD, Batch, BatchStream, Better, LossSum, Validation
from regard.weights import save_weights

VOCABULARY, WIDTH = 24, 16
BETTER: dict[str, Better] = {"loss": "lower", "bleu": "higher"}
POISON = VOCABULARY - 1
"""A source token that makes a toy's loss NaN."""
SETTINGS = Training(
    steps=24, warmup=6, learning_rate=1e-2, validate_every=8, save_every=4, log_every=1, keep=2, average=3,
    metric="loss", device="cpu", batch_tokens=64, weight_decay=0.01,
)  # fmt: skip


class Toy(nn.Module):
    """Embeds, mixes, predicts: the middle is what a test chooses. The output layer is tied to the embedding."""

    def __init__(self, kind: str = "lstm", dropout: float = 0.2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.dropout = nn.Dropout(dropout)
        self.kind = kind
        if kind == "transformer":
            self.middle: nn.Module = nn.TransformerEncoderLayer(WIDTH, 2, 32, dropout, batch_first=True)
        elif kind == "normed":
            self.middle = nn.BatchNorm1d(WIDTH)
        else:
            self.middle = {"rnn": nn.RNN, "lstm": nn.LSTM}[kind](WIDTH, WIDTH, 2, batch_first=True, dropout=dropout)
        self.output = nn.Linear(WIDTH, VOCABULARY)
        self.output.weight = self.embedding.weight

    def loss(self, batch: Batch) -> LossSum:
        x = self.dropout(self.embedding(batch.target[:, :-1]))
        if self.kind == "transformer":
            length = x.shape[1]
            later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
            x = self.middle(x, src_mask=later)
        elif self.kind == "normed":
            x = self.middle(x.transpose(1, 2)).transpose(1, 2)
        else:
            x = self.middle(x)[0]
        logits = self.output(self.dropout(x) + self.embedding(batch.source).mean(1, keepdim=True))
        wanted = batch.target[:, 1:]
        total = nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=PAD, reduction="sum")
        poisoned = (batch.source == POISON).any()
        return LossSum(total * torch.where(poisoned, torch.nan, 1.0), batch.units)


class Stream(BatchStream):
    """Epochs of a few batches in an order that each epoch draws anew; `poison` names (epoch, batch) cursors."""

    def __init__(
        self, seed: int = 3, batches: int = 7, rows: int = 4, poison: set[tuple[int, int]] | None = None
    ) -> None:
        self.seed, self.batches, self.rows = seed, batches, rows
        self.poison = poison or set()
        self.seek({"epoch": 0, "batch": 0})

    def cursor(self) -> dict[str, int]:
        return {"epoch": self.epoch, "batch": self.batch}

    def seek(self, cursor: dict[str, int]) -> None:
        self.epoch, self.batch = cursor["epoch"], cursor["batch"]

    def __iter__(self) -> Generator[Batch, None, None]:
        while True:
            order = torch.randperm(self.batches, generator=torch.Generator().manual_seed(self.seed + 1000 * self.epoch))
            while self.batch < self.batches:
                made = self.make(int(order[self.batch]))
                if (self.epoch, self.batch) in self.poison:
                    made.source[0, 0] = POISON
                self.batch += 1
                if self.batch == self.batches:  # the cursor never points behind an epoch's end
                    self.epoch, self.batch = self.epoch + 1, 0
                yield made
                if self.batch == 0:
                    break

    def make(self, number: int) -> Batch:
        random = torch.Generator().manual_seed(self.seed + number)
        length = 5 + number % 3
        text = torch.randint(4, POISON, (self.rows, length), generator=random)
        source = torch.cat([text, torch.full((self.rows, 1), END)], 1)
        target = torch.cat([torch.full((self.rows, 1), BEGIN), text.flip(1), torch.full((self.rows, 1), END)], 1)
        wanted = target != BEGIN
        return Batch(source, torch.ones_like(source, dtype=torch.bool), target, wanted, int(wanted.sum()))


def validate(model: nn.Module) -> Validation:
    """Loss on batches of another seed. It draws random numbers, which must not matter to the run."""
    device = next(model.parameters()).device
    torch.rand(3, device=device)
    losses = [model.loss(Stream(seed=99).make(number).to(device)) for number in range(3)]
    return Validation({"loss": float(sum(x.total for x in losses)) / sum(x.units for x in losses)})


def files(weights: dict[str, Tensor]) -> dict[str, bytes]:
    return {"weights.safetensors": save_weights(weights), "vocabulary.txt": b"one\ntwo\nthree\n"}


def maker(kind: str = "lstm", *, dropout: float = 0.2, stream: dict[str, Any] | None = None, **changes: Any) -> Maker:
    """How to make the same trainer again and again, as the laws want it."""

    def make(folder: Path, report: Listener) -> Trainer:
        torch.manual_seed(5)
        model, settings = Toy(kind, dropout), replace(SETTINGS, **changes)
        return Trainer(
            model,
            Stream(**(stream or {})),
            folder,
            settings,
            seed=7,
            model_files=files,
            validate=validate,
            better=BETTER,
            report=report,
        )

    return make


Maker = Callable[[Path, Listener], Trainer]


class Recorder(Quiet):
    """Remembers what a trainer said."""

    def __init__(self) -> None:
        self.logs: dict[int, Log] = {}
        self.scores: dict[int, dict[str, float]] = {}
        self.notes: list[str] = []

    def log(self, log: Log) -> None:
        self.logs[log.step] = replace(log, units_per_second=0.0)  # the clock is not part of what must be equal

    def validated(self, step: int, validation: Validation) -> None:
        self.scores[step] = validation.scores

    def note(self, text: str) -> None:
        self.notes.append(text)


# ------------------------------------------------------------------------------------------------- processes that die


class DiesAt(Quiet):
    """Kills its own process at a step, without a farewell."""

    def __init__(self, step: int) -> None:
        self.step = step

    def advance(self, step: int) -> None:
        if step == self.step:
            os.kill(os.getpid(), signal.SIGKILL)


def die_in_save(save: int, event: int) -> None:
    """Kills this process at the given file operation (from 0) of the given save (from 0)."""
    saves = events = -1

    def hook(name: str, arguments: tuple[Any, ...]) -> None:
        nonlocal saves, events
        if name == "os.mkdir" and str(arguments[0]).endswith(".tmp"):
            saves, events = saves + 1, -1
        if saves == save and name in ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree"):
            events += 1
            if events == event:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def train_in_child(
    folder: str,
    kind: str = "lstm",
    die_at: int = 0,
    save: int = -1,
    event: int = -1,
    changes: dict[str, Any] | None = None,
) -> None:
    """What a child process runs: begins, or goes on from what is there."""
    torch.set_num_threads(1)
    if event >= 0:
        die_in_save(save, event)
    trainer = maker(kind, **(changes or {}))(Path(folder), DiesAt(die_at))
    trainer.resume()
    trainer.fit()


_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["torch", "torch._dynamo", "safetensors.torch", "regard.training.trainer"])


def child(target: Callable[..., None], *arguments: Any) -> Any:
    """Starts a process that has torch in memory already."""
    process = _PROCESSES.Process(target=target, args=arguments)
    process.start()
    return process


def run_child(target: Callable[..., None], *arguments: Any) -> int:
    """Runs a process to its end and returns its exit code (minus the signal's number when a signal ended it)."""
    process = child(target, *arguments)
    process.join(60)
    assert process.exitcode is not None, "the child did not end"
    return process.exitcode
