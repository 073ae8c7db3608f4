"""What torchrun runs in the tests: processes that train together what a list of scenarios says, one after another.

The same scenario run by one process alone is what the tests compare with.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.assemble import build_model
from regard.data.examples import Coded, ExampleBatches, collate
from regard.errors import UserError
from regard.training import distributed
from regard.training.distributed import together
from regard.training.loop import Loop
from regard.training.ranks import Ranks
from regard.training.trainer import Trainer
from regard.types import BEGIN, END, Batch, LossSum, Validation
from tests.training.toys import BETTER, POISON, SETTINGS, VOCABULARY, Recorder, Toy, files

ROOT = Path(__file__).parents[2]
TRANSFORMER = {"layers": 2, "heads": 2, "feed_forward": 24, "width": 16}


@dataclass
class Scenario:
    folder: str
    model: str = "lstm"
    """A toy's kind, or a kind of decoder for a real model of that kind."""
    training: dict[str, Any] = field(default_factory=dict)
    dropout: float = 0.0
    resume: bool = False
    signal_at: tuple[int, int] = (-1, 0)
    """A rank that is sent SIGTERM, and the step after which."""
    poison: int = -1
    """An example that makes the loss NaN."""
    burst: tuple[int, int] = (-1, 0)
    """A rank, and how many rows fit in its memory."""


def examples(poison: int = -1) -> list[Coded]:
    """Thirty different texts, to be written backwards."""
    random = np.random.default_rng(4)
    made = []
    for number in range(30):
        source = random.integers(END + 1, POISON, random.integers(3, 9))
        target = np.array([BEGIN, *source[::-1], END])
        if number == poison:
            source = np.array([POISON, *source])
        made.append(Coded(source, target, target != BEGIN))
    return made


def make_model(kind: str, dropout: float) -> nn.Module:
    torch.manual_seed(5)
    if kind in ("lstm", "rnn", "transformer", "normed"):
        return Toy(kind, dropout)
    if kind == "language_model":
        return build_model({**TRANSFORMER, "dropout": dropout, "kind": kind}, VOCABULARY, 0.1)
    parts = {"seq2seq": ("transformer", "transformer"), "attentional": ("recurrent", "attentional")}
    encoder, decoder = parts.get(kind, (kind, kind))
    sizes = {"layers": 2, "width": 16} if kind == "attentional" else TRANSFORMER
    tree = {**sizes, "dropout": dropout, "encoder": encoder, "decoder": decoder, "kind": "seq2seq"}
    return build_model(tree, VOCABULARY, 0.1)


class Told(Recorder):
    """Remembers, and sends its own process a signal when it is time."""

    def __init__(self, signal_at: int) -> None:
        super().__init__()
        self.signal_at = signal_at

    def advance(self, step: int) -> None:
        if step == self.signal_at:
            os.kill(os.getpid(), signal.SIGTERM)


class Watched(nn.Module):
    """Writes down which texts a rank was given at which step, and can run out of memory."""

    def __init__(self, inner: nn.Module, seen: list[list[Any]], most: int | None) -> None:
        super().__init__()
        self.inner, self.seen, self.most = inner, seen, most

    def loss(self, batch: Batch) -> LossSum:
        if self.training:
            if self.most is not None and len(batch) > self.most:
                if torch.is_grad_enabled():  # as late as can be: all gradients are there, and being sent
                    self.inner.loss(batch).total.backward()  # type: ignore[operator]
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")
            if torch.is_grad_enabled():
                rows = [row[kept].tolist() for row, kept in zip(batch.source, batch.source_mask)]
                self.seen.append(rows)
        return self.inner.loss(batch)  # type: ignore[operator,no-any-return]


def validate(model: nn.Module) -> Validation:
    torch.rand(3)  # must not matter to the run
    found = model.loss(collate(examples()[:4], True))  # type: ignore[operator]
    return Validation({"loss": float(found.total) / found.units})


def run(scenario: Scenario, ranks: Ranks) -> Trainer:
    """To its end; what rank 0 logged and what each rank was given is left beside the run."""
    folder = Path(scenario.folder)
    told = Told(scenario.signal_at[1] if scenario.signal_at[0] == ranks.rank else 0)
    # Keys' biases have no gradient but rounding errors, which a small epsilon would make into steps like any other.
    usual = {"steps": 12, "save_every": 4, "validate_every": 4, "epsilon": 1e-5}
    settings = replace(SETTINGS, **{**usual, **scenario.training})
    seen: list[list[Any]] = []
    most = scenario.burst[1] if scenario.burst[0] == ranks.rank else None
    model = make_model(scenario.model, scenario.dropout)
    made = examples(scenario.poison)
    stream = ExampleBatches(lambda epoch: made, varying=True, batch_tokens=64, batch_examples=4, seed=2)
    trainer = Trainer(
        Watched(model, seen, most),
        stream,
        folder,
        settings,
        seed=7,
        model_files=files,
        validate=validate,
        better=BETTER,
        report=told,
        ranks=ranks,
    )
    first = trainer.resume() if scenario.resume else 0
    trainer.fit()
    folder.mkdir(exist_ok=True, parents=True)
    found = {"first": first, "rank": ranks.rank, "seen": seen, "notes": told.notes}
    found["logs"] = {step: asdict(log) for step, log in told.logs.items()}
    found["scores"] = told.scores
    (folder / f"told-{first}-{ranks.rank}.json").write_text(json.dumps(found))
    return trainer


def alone(scenario: Scenario) -> Trainer:
    return run(scenario, Ranks())


def fails(ranks: Ranks, how: str) -> None:
    """Injects an error into rank 1's third step; `stuck`: and rank 0 hears nothing for a long time; `killed:2`: into the
    fifth step of each of the first two starts; `frozen`: rank 1 neither ends nor answers."""
    how, _, times = how.partition(":")
    if times and int(os.environ["TORCHELASTIC_RESTART_COUNT"]) >= int(times):
        return
    fatal = 5 if times else 3  # batches are drawn a step ahead: after the checkpoint of step 2
    distributed.SILENT_SECONDS = 3.0 if how == "frozen" else 1e9
    drawn = Loop._draw
    count = 0

    def draw(self: Loop, batches: Any) -> list[Batch]:
        nonlocal count
        count += 1
        if count == 3 and how == "stuck" and ranks.is_first:
            time.sleep(100)
        if count == 3 and how in ("mistake", "stuck"):
            raise UserError("data: line 7 is not what it should be; look at it")
        if count == 3 and how == "bug":
            raise ZeroDivisionError("injected")
        if count == fatal and how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if count == fatal and how == "frozen":
            os.kill(os.getpid(), signal.SIGSTOP)
        return drawn(self, batches)

    if ranks.rank == 1 or how == "stuck":
        Loop._draw = draw  # type: ignore[method-assign]


def launch(
    *arguments: str, ranks: int = 2, options: Sequence[str] = ("--standalone",), **process: Any
) -> subprocess.Popen[str]:
    """torchrun, as a user would start it."""
    command = [sys.executable, "-m", "torch.distributed.run", *options, "--nproc-per-node", str(ranks), "-m"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **process.pop("env", {})}
    return subprocess.Popen(
        [*command, *arguments],
        env=environment,
        text=True,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **process},
    )


def train_together(scenarios: Sequence[Scenario], ranks: int = 2) -> None:
    process = launch("tests.training.ranks", json.dumps([asdict(scenario) for scenario in scenarios]), ranks=ranks)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, out + err


def main(command: str, rest: list[str]) -> None:
    torch.set_num_threads(1)
    with together() as ranks:
        if command.startswith("fail:"):
            fails(ranks, command.removeprefix("fail:"))
        else:
            for values in json.loads(command):
                run(Scenario(**values), ranks)
            return
    from regard.cli import main as command_line

    sys.argv = ["regard", *rest]
    command_line()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
