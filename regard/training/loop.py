"""The training loop. It knows a model as something with `.loss(batch)`, and data as a stream with a cursor.

Killed at any moment and resumed, a run goes on as if nothing had happened: on the CPU to the last bit. So everything
that the next step depends on is either in `Ledger` or a tensor in optimizer.safetensors.

Several ranks (distributed.py) train as one: a step's batches are dealt out, losses, units and gradients are summed, and
all that a rank decides, it decides by such sums. So all keep the same ledger; rank 0 alone reads and writes the run.
"""

from __future__ import annotations

import contextlib
import copy
import json
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard import registry
from regard.config import Training
from regard.device import is_out_of_memory, mixed_precision
from regard.errors import UserError, suggestion
from regard.storage import Folder, clean_leftovers, read_folder, save_tensors, write_folder
from regard.training.checkpoints import Checkpoints, Lock, average
from regard.training.defaults import with_defaults
from regard.training.distributed import Ranks
from regard.training.gradient_sum import GradientSum
from regard.training.interruption import Interrupted, Interruption
from regard.training.layer_norms import by_layer, gradient_norms
from regard.training.progress import Listener, Log, Quiet
from regard.training.recorded import Recorder
from regard.training.sharding import SHARD, Sharded, local, put, read_shares, share_files, whole, write_shares
from regard.types import Batch, BatchStream, LossSum, Validation

OPTIMIZER, LEDGER = "optimizer.safetensors", "training.json"
SLOTS = ("step", "exp_avg", "exp_avg_sq")
"""What AdamW keeps of a parameter."""
ERRORS = ("loss", "perplexity", "loss_per_character", "nll_per_step", "error", "wer", "mse", "mae")
"""Scores of which less is better."""
ECHO = 5.0  # seconds within which a launcher passes on a signal


class Part(NamedTuple):
    """A batch of a step, or a piece of one that did not fit in memory."""

    batch: Batch
    number: int | None = None
    """Which batch of the step it is, counted over all ranks, where random numbers are to begin anew with it."""
    counts: bool = True
    """False for one that is computed only because all ranks must compute equally often."""


class Sums(NamedTuple):
    """What a step found, over all ranks."""

    loss: float
    norm: float
    units: int
    again: bool = False
    """A batch did not fit in some rank's memory: all take the step again."""
    stop: bool = False
    seconds: float = 0.0
    used: list[bool] | None = None
    """Which parameters had a gradient anywhere; None where that is seen of the gradients themselves."""


class Taken(NamedTuple):
    """A step whose numbers are not read yet."""

    numbers: Tensor
    """Loss and norm, on their way to the host."""
    arrived: torch.cuda.Event | None
    units: int
    step: int
    cursor: dict[str, int]


@dataclass
class Ledger:
    """What a run remembers besides tensors. Saved as JSON, whose numbers come back exactly."""

    seed: int
    batch_tokens: int
    cursor: dict[str, int]
    """Of the first batch of the next step."""
    step: int = 0
    units: int = 0
    """Units (target tokens, say) trained on so far."""
    validated: int = 0
    """The last step that was validated."""
    best_score: float | None = None
    best_step: int = 0
    best_scores: dict[str, float] = field(default_factory=dict)
    start_scores: dict[str, float] = field(default_factory=dict)
    """Of the model that fine-tuning started from, on the validation examples."""
    waited: int = 0
    """Validations since the best one."""
    bad: int = 0
    """Steps in a row that were skipped because a number was not finite."""
    window_loss: float = 0.0
    window_units: int = 0
    """Loss and units since the last log line."""
    seconds: float = 0.0
    """Time spent so far. Counted only under a time limit, so that without one equal runs give equal files."""


@dataclass
class Result:
    """How a run ended."""

    step: int
    reason: str
    """steps, minutes, patience or interrupted."""
    best_step: int = 0
    scores: dict[str, float] = field(default_factory=dict)
    """Of the model that was written, where it was validated."""
    model: Path | None = None
    """The finished model's folder; None when interrupted."""

    @property
    def interrupted(self) -> bool:
        return self.reason == "interrupted"


class Trainer:
    """Trains a model in a run's folder: checkpoints/ while it goes on, model/ at the end."""

    def __init__(
        self,
        model: nn.Module,
        stream: BatchStream,
        folder: Path,
        settings: Training,
        *,
        seed: int,
        model_files: Callable[[dict[str, Tensor]], dict[str, bytes]],
        validate: Callable[[nn.Module], Validation] | None = None,
        report: Listener | None = None,
        ranks: Ranks | None = None,
        fine_tuning: bool = False,
    ) -> None:
        """`model_files` turns weights into the files of a model folder; it must keep them unrounded.

        With `fine_tuning` the model is validated before the first step, too, and compared with the result.
        With several `ranks` all make their trainer of the same arguments, but for the device and the report.
        """
        self.settings = settings = with_defaults(settings)
        self.folder = Path(folder)
        self.ranks = ranks or Ranks()
        self.device = self.ranks.device(settings.device)
        self.precision = mixed_precision(settings.precision, self.device)
        self.stream = stream
        self.model_files = model_files
        self.validate = validate
        self.report = report or Quiet()
        self.fine_tuning = fine_tuning
        self.checkpoints = Checkpoints(self.folder, settings.keep, settings.average, warn=self.report.note)
        self.accumulate = max(1, settings.accumulate)
        self.ranks.connect(self.device)
        self._place(model)
        self._deal()
        self.trained = {n: p for n, p in self.held.items() if isinstance(p, nn.Parameter) and p.requires_grad}
        self.buffers = [t for t in self.held.values() if not isinstance(t, nn.Parameter) and t.is_floating_point()]
        self.gradient_sum = None
        if self.ranks.size > 1 and not self.sharded:
            self.gradient_sum = GradientSum(list(self.trained.values()))
        self.optimizer = adam_w(list(self.trained.values()), settings, self.device)
        self.schedule: Callable[[int], float] = registry.create(
            "training/schedule",
            settings.schedule,
            "training.schedule",
            learning_rate=settings.learning_rate,
            warmup=settings.warmup,
            steps=settings.steps,
        )
        self.smooth = {n: p.detach().clone() for n, p in self.trained.items()} if settings.ema else {}
        self.ledger = Ledger(seed, settings.batch_tokens, stream.cursor())
        self._reads_late = self.device.type == "cuda" and self.ranks.size == 1 and not self.smooth
        """Whether a step is booked when the next one is under way, so that the device never waits for the host."""
        self._unread: Taken | None = None
        self._recorder: Recorder | None = None
        self._random: dict[str, Tensor] | None = None
        self._saved = -1
        self._lock: Lock | None = None
        self._interruption = Interruption(echo=ECHO if self.ranks.size > 1 else 0.0)
        self._stop = False
        """Whether the ranks have agreed to."""
        self._began = 0.0
        self._logged_at, self._units_at_log = time.monotonic(), 0

    def record(self) -> None:
        """From now on steps are recorded and replayed (recorded.py), where that is possible."""
        if self.device.type == "cuda" and self.ranks.size == 1:
            self._recorder = Recorder(self._add_gradients, self.report.note)

    def _deal(self) -> None:
        """Deals a step's batches out to the ranks; a stream that cannot leave any out builds them all."""
        if self.accumulate < self.ranks.size:
            raise UserError(f"training.accumulate: {self.accumulate} batches a step are too few for {self.ranks.size}")
        if self.ranks.size > 1 and (share := getattr(self.stream, "share", None)):
            share(self.ranks.rank, self.ranks.size, self.accumulate)

    def _place(self, model: nn.Module) -> None:
        """The model on its device, or a share of it. `self.model` is whole: for validation, and what comes of the run.

        `weights` are those of the whole model, `held` those that this rank trains: the same, unless there are shares.
        Then rank 0 has a copy besides, off the device but for validation, and the other ranks have no whole model.
        """
        self.sharded: Sharded | None = None
        if not (self.settings.shard and self.ranks.size > 1):
            self.model = model.to(self.device)
            self.weights = self.held = named_weights(self.model)
            self.ranks.copy_first(self.held.values(), self.device)
            return
        self.ranks.copy_first(named_weights(model).values(), self.device)
        self.model = copy.deepcopy(model) if self.ranks.is_first else model
        self.sharded = Sharded(model, self._example(), self.device, self.ranks.size)
        self.held = named_weights(model)
        self.weights = named_weights(self.model) if self.ranks.is_first else {}

    def _example(self) -> Batch:
        """A small batch, the same on all ranks."""
        cursor = self.stream.cursor()
        batches = iter(self.stream)
        example = next(batch for batch in batches if len(batch))
        if close := getattr(batches, "close", None):
            close()
        self.stream.seek(cursor)
        while len(example) > 3:
            example = example.split()[0]
        return example

    # ------------------------------------------------------------------------------------------------- the whole run

    def resume(self) -> int:
        """Takes up the newest whole checkpoint, or begins when nothing was saved yet. Returns the step it stands at."""
        with self._release_on_error():
            folders: list[Folder] = []

            def newest() -> tuple[str, int, bool] | None:
                self._lock = self._lock or Lock(self.folder)
                if found := self.checkpoints.newest_valid():
                    folders.append(found[1])
                return (found[0].path.name, found[0].step, found[0].regular) if found else None

            told = self.ranks.first(newest)
            if told is None:
                self._note(f"{self.folder} holds no checkpoint yet: starting at step 0")
                return 0
            name, step, regular = told
            self._load(folders[0] if folders else read_folder(self.checkpoints.folder / name))
            self._saved = step if regular else -1
            self._note(f"going on from step {step}")
            return self.ledger.step

    def fit(self) -> Result:
        """Trains until the steps, the time or the patience is used up, or a signal comes; leaves everything saved."""
        with self._release_on_error(), self._interruption, contextlib.closing(self.report):
            self.ranks.first(self._open)
            if self._random is None:
                torch.manual_seed(self.ledger.seed)
            else:
                set_random_states(self._random, self.device)
            self.report.start(self.ledger.step, self.settings.steps)
            try:
                return self._finish(self._run())
            except Interrupted:
                if self._saved != self.ledger.step:
                    self._save(interrupted=True)
                self._note(f"interrupted and saved at step {self.ledger.step}; resume to go on")
                return self._result("interrupted")
            finally:
                self._release()

    def _open(self) -> None:
        self._lock = self._lock or Lock(self.folder)
        if self._random is None and self.checkpoints.all():
            raise UserError(f"{self.folder} already holds a run; resume it or choose another folder")
        clean_leftovers(self.folder)
        clean_leftovers(self.checkpoints.folder)

    def _note(self, text: str) -> None:
        """What happened to all ranks is said once."""
        if self.ranks.is_first:
            self.report.note(text)

    def _run(self) -> str:
        """Each turn does what is due at the step reached, then takes the next one. Returns the reason of the end."""
        self._began = time.monotonic() - self.ledger.seconds
        self._logged_at, self._units_at_log = time.monotonic(), self.ledger.units
        batches = iter(self.stream)
        (self.sharded or self.model).train()
        try:
            following: list[Batch] = []
            self._validate_start()
            while True:
                self._check_interruption()
                if self.settings.minutes and self.ranks.size == 1:
                    self.ledger.seconds = time.monotonic() - self._began
                ending = self._ending()
                improved = self._validation_is_due(ending) and self._judge(self._validated())
                ending = ending or self._ending()
                if self._saved != self.ledger.step and (ending or improved or self._every(self.settings.save_every)):
                    self._save(best=improved)
                if ending:
                    return ending
                following = self._step(following or self._draw(batches), batches)
                self.report.advance(self.ledger.step)
        finally:
            if close := getattr(batches, "close", None):
                close()

    def _check_interruption(self) -> None:
        """One rank alone stops when it is asked to; several when all know of it, which a step tells them."""
        if self.ranks.size == 1:
            self._interruption.check()
        elif self._stop:
            raise Interrupted

    def _scheduled(self) -> int:
        """The step that the schedule is at: where the time runs out before the steps do, it follows the time."""
        if not self.settings.minutes:
            return self.ledger.step
        by_time = int(self.settings.steps * self.ledger.seconds / (60 * self.settings.minutes))
        return max(self.ledger.step, min(self.settings.steps, by_time))

    def _ending(self) -> str:
        if self.ledger.step >= self.settings.steps:
            return "steps"
        if self.settings.minutes and self.ledger.seconds >= 60 * self.settings.minutes:
            return "minutes"
        if self.settings.patience and self.ledger.waited >= self.settings.patience:
            return "patience"
        return ""

    def _every(self, count: int) -> bool:
        return count > 0 and self.ledger.step > 0 and self.ledger.step % count == 0

    def _finish(self, reason: str) -> Result:
        """Writes RUN/model: the mean of the best checkpoint and those before it, unless the best alone is better."""
        scores = self.ranks.first(self._make_model)
        if scores is None:
            raise Interrupted
        self._compare_with_start(scores)
        return self._result(reason, scores, self.folder / "model")

    def _make_model(self) -> dict[str, float] | None:
        """The scores of the model that was written; None when a signal came before it was."""
        folders = [folder for saved in self.checkpoints.to_average() if (folder := self._readable(saved.path))]
        if not folders:
            raise UserError(f"{self.checkpoints.folder}: no whole checkpoint is left to make a model of")
        self._put(self.weights, average(folders))
        scores = self.ledger.best_scores
        if self.validate and len(folders) > 1:
            validation = self._validated_here(smooth=False)
            if validation is None:
                return None
            mean = validation.scores
            metric = self._metric(mean)
            alone = self.ledger.best_scores.get(metric, math.nan)
            found = f"{len(folders)} checkpoints averaged: {metric} {mean[metric]:.4g}, the best alone: {alone:.4g}"
            if self._better(mean):
                scores = mean
                self.report.note(f"{found}; the average is kept")
            else:
                self._put(self.weights, folders[-1].weights())
                self.report.note(f"{found}; the best is kept")
        weights = {name: t.detach().cpu() for name, t in self.weights.items()}
        write_folder(self.folder / "model", self.model_files(weights))
        return scores

    def _readable(self, path: Path) -> Folder | None:
        try:
            return read_folder(path)
        except UserError as error:
            self.report.note(f"left out of the average: {error}")
            return None

    def _result(self, reason: str, scores: dict[str, float] | None = None, model: Path | None = None) -> Result:
        return Result(self.ledger.step, reason, self.ledger.best_step, scores or self.ledger.best_scores, model)

    # ------------------------------------------------------------------------------------------------------ one step

    def _draw(self, batches: Iterator[Batch]) -> list[Batch]:
        """This rank's batches of one step, on their way to the device."""
        drawn = []
        for number in range(self.accumulate):
            batch = next(batches)
            if number % self.ranks.size == self.ranks.rank:
                drawn.append(batch.pin().to(self.device) if self.device.type == "cuda" else batch.to(self.device))
        return drawn

    def _step(self, batches: list[Batch], stream: Iterator[Batch]) -> list[Batch]:
        """One update (or none, when a number is not finite). Returns the batches of the next step."""
        ledger = self.ledger
        cursor, ledger.cursor = ledger.cursor, self.stream.cursor()
        kept = [buffer.clone() for buffer in self.buffers]
        parts = self._parts(batches)
        following: list[Batch] = []
        while True:
            total, units, fits = self._gradients(parts, cursor)
            gradients = [local(p.grad) for p in self.trained.values() if p.grad is not None]
            numbers = self._summed(total, nn.utils.get_total_norm(gradients), units, fits)
            norms = self._norms()
            if self._reads_late:
                return self._take(gradients, numbers, norms, units, cursor, kept, stream)
            following = following or self._draw(stream)  # copied while the device still works
            found = self._read(numbers, units)  # the one place that waits for it
            if not found.again:
                break
        self._stop = found.stop
        if self.ranks.size > 1 and self.settings.minutes:
            ledger.seconds = found.seconds
        ledger.step += 1
        rate = self.schedule(self._scheduled())
        if found.units and math.isfinite(found.loss) and math.isfinite(found.norm):
            mean_norm = found.norm / found.units
            clipped = min(1.0, self.settings.clip / mean_norm) if self.settings.clip and mean_norm else 1.0
            self._update(self._used(gradients, found.used), rate, clipped / found.units)
        else:
            for buffer, before in zip(self.buffers, kept, strict=True):
                buffer.copy_(before)
        self._book(found.loss, found.norm, found.units, ledger.step, cursor)
        self._clear_gradients()
        if self._every(self.settings.log_every):
            self._log(rate, found.norm, norms, found.units)
        return following

    def _take(
        self,
        gradients: list[Tensor],
        numbers: Tensor,
        norms: Tensor | None,
        units: int,
        cursor: dict[str, int],
        kept: list[Tensor],
        stream: Iterator[Batch],
    ) -> list[Batch]:
        """The rest of a step that the host does not wait for: the device leaves it out where it is not finite."""
        self.ledger.step += 1
        rate = self.schedule(self._scheduled())
        if units:
            bad = ~numbers.isfinite().all()
            clipped = (self.settings.clip * units / numbers[1]).clamp(max=1.0) if self.settings.clip else 1.0
            self.optimizer.found_inf = bad.float()  # type: ignore[attr-defined] # what torch.amp.GradScaler tells it
            self._update(gradients, rate, clipped / units)
            for buffer, before in zip(self.buffers, kept, strict=True):
                buffer.copy_(torch.where(bad, before, buffer))
        if self._recorder is None:
            self._clear_gradients()
        arrived = torch.cuda.Event() if self.device.type == "cuda" else None
        taken = Taken(numbers.to("cpu", non_blocking=True), arrived, units, self.ledger.step, cursor)
        if arrived:
            arrived.record()
        following = self._draw(stream)
        self._settle()
        self._unread = taken
        if self._every(self.settings.log_every):
            norm = self._settle()  # after which the norms have arrived, too
            self._log(rate, norm, norms, units)
        return following

    def _settle(self) -> float:
        """Reads and books the step that is still unread, if there is one; the norm of its gradient."""
        taken, self._unread = self._unread, None
        if taken is None:
            return 0.0
        if taken.arrived:
            taken.arrived.synchronize()
        loss, norm = taken.numbers.tolist()
        self._book(loss, norm, taken.units, taken.step, taken.cursor)
        return norm

    def _book(self, loss: float, norm: float, units: int, step: int, cursor: dict[str, int]) -> None:
        """Writes a step into the ledger; one that was not finite was no update, and many such end the run."""
        ledger = self.ledger
        if not units:
            return
        if math.isfinite(loss) and math.isfinite(norm):
            ledger.bad = 0
            ledger.units += units
            ledger.window_loss += loss
            ledger.window_units += units
            return
        ledger.bad += 1
        where = f"step {step}, batch {cursor}"
        self._note(f"{where}: skipped, because the loss ({loss}) or the gradient's norm ({norm}) is not finite")
        if ledger.bad >= max(1, self.settings.bad_steps):
            raise UserError(
                f"{where}: {ledger.bad} steps in a row were not finite; "
                "resume with a lower training.learning_rate or look at the data there"
            )

    def _parts(self, batches: list[Batch]) -> list[Part]:
        """Alone, random numbers go on from batch to batch; with several ranks they begin anew with each, so that they
        are the same however many ranks there are."""
        if self.ranks.size == 1:
            return [Part(batch) for batch in batches]
        numbers = range(self.ranks.rank, self.accumulate, self.ranks.size)
        parts = [Part(batch, number) for batch, number in zip(batches, numbers, strict=True)]
        if self.sharded and len(parts) < -(-self.accumulate // self.ranks.size):
            row = batches[-1]
            while len(row) > 1:
                row = row.split()[0]
            parts.append(Part(row, counts=False))
        return parts

    def _gradients(self, parts: list[Part], cursor: dict[str, int]) -> tuple[Tensor, int, bool]:
        """Leaves the gradient of the summed loss in the parameters: with several ranks, of the loss of all.

        A batch that does not fit in memory is halved. What did not fit may have left half its gradients behind, so the
        step is begun again with the smaller parts: by all ranks (False is returned) where they had begun to sum.
        """
        while True:
            self._clear_gradients()
            total, units = torch.zeros((), device=self.device), 0
            too_large = -1
            if self.gradient_sum:
                self.gradient_sum.begin()
                if not parts:
                    self.gradient_sum.last()
            for index, part in enumerate(parts):
                if self.gradient_sum and index + 1 == len(parts):
                    self.gradient_sum.last()
                try:
                    loss = self._loss(part)
                except (RuntimeError, MemoryError) as error:
                    if not is_out_of_memory(error):
                        raise
                    too_large = index
                    break
                if part.counts:
                    total = total + loss.total.detach().float()
                    units += loss.units
            loss = None  # type: ignore[assignment] # what it holds of the device must be free before the next attempt
            if too_large >= 0 and not self._made_room():
                self._halve(parts, too_large, cursor)
            summed = self.gradient_sum.end() if self.gradient_sum else True
            if too_large < 0 or (summed and self.ranks.size > 1):
                return total, units, too_large < 0

    def _loss(self, part: Part) -> LossSum:
        """Of one batch, whose gradient it adds to the parameters'."""
        if part.number is not None:
            seeds = np.random.SeedSequence([self.ledger.seed, self.ledger.step, part.number])
            torch.manual_seed(int(seeds.generate_state(1, np.uint64)[0]))
        if self._recorder:
            return LossSum(self._recorder(part.batch), part.batch.units)
        with torch.autocast(self.device.type, self.precision, enabled=self.precision is not None):
            loss: LossSum = (self.sharded or self.model).loss(part.batch)  # type: ignore[operator]
        if self.sharded:  # whose gradients are averaged over the ranks
            (loss.total * (self.ranks.size if part.counts else 0)).backward()
        else:
            loss.total.backward()
        return loss

    def _add_gradients(self, batch: Batch) -> Tensor:
        """What is recorded."""
        with torch.autocast(self.device.type, self.precision, enabled=self.precision is not None):
            total = self.model.loss(batch).total  # type: ignore[operator]
        total.backward()
        return total.detach()

    def _clear_gradients(self) -> None:
        """Recordings write gradients to where they were when they were recorded."""
        self.optimizer.zero_grad(set_to_none=self._recorder is None)

    def _made_room(self) -> bool:
        """Recordings hold as much memory again as a step takes; where that is too much, there are none."""
        if self._recorder is None or not self._recorder.stop():
            return False
        torch.cuda.empty_cache()
        self.report.note("memory is short: steps are no longer recorded")
        return True

    def _halve(self, parts: list[Part], index: int, cursor: dict[str, int]) -> None:
        where = f"step {self.ledger.step + 1}, batch {cursor}"
        if self.sharded:  # the others are in the middle of a pass that they cannot finish without this one
            raise UserError(
                f"{where}: {len(parts[index].batch)} rows do not fit in memory, and with training.shard no rank can "
                "split a batch alone; start anew with a lower training.batch_tokens"
            )
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        batch, number, _ = parts[index]
        done = "is split in two" if len(batch) > 1 else "is left out"
        self.report.note(f"{where}: {len(batch)} rows do not fit in memory; this part {done}")
        pieces = batch.split() if len(batch) > 1 else []
        parts[index : index + 1] = [Part(piece, None if i else number) for i, piece in enumerate(pieces)]

    def _summed(self, total: Tensor, norm: Tensor, units: int, fits: bool) -> Tensor:
        """The numbers of `Sums`, added up over the ranks. Alone only those that are on the device."""
        if self.ranks.size == 1:
            return torch.stack([total, norm.to(total)])
        # Of whole gradients all have the same norm; rank 0's is taken, so that not even a last bit can divide them.
        counted = self.sharded or self.ranks.is_first
        seconds = time.monotonic() - self._began if self.ranks.is_first else 0.0
        used = self.gradient_sum.used if self.gradient_sum else []
        own = torch.tensor([units, not fits, self._interruption.requested, seconds, *used], dtype=torch.float64)
        if self.device.type == "cuda":
            own = own.pin_memory().to(self.device, non_blocking=True)
        square = norm.to(own).square() if counted else own.new_zeros(())
        return self.ranks.sum(torch.cat([torch.stack([total.to(own), square]), own]))

    def _norms(self) -> Tensor | None:
        """The norm of each parameter's gradient, on its way to the host, where the step is to be logged."""
        every = self.settings.log_every
        if every <= 0 or (self.ledger.step + 1) % every or not (self.sharded or self.ranks.is_first):
            return None
        norms = gradient_norms(self.trained.values())
        if self.sharded:  # whose ranks each have the norm of a share
            norms = self.ranks.sum(norms.square()).sqrt()
        return norms.to("cpu", non_blocking=True)

    def _read(self, numbers: Tensor, units: int) -> Sums:
        if self.ranks.size == 1:
            loss, norm = numbers.tolist()
            return Sums(loss, norm, units)
        loss, square, units, again, stop, seconds, *used = numbers.tolist()
        marks = [count > 0 for count in used] if self.gradient_sum else None
        return Sums(loss, math.sqrt(square), int(units), again > 0, stop > 0, seconds, marks)

    def _used(self, gradients: list[Tensor], used: list[bool] | None) -> list[Tensor]:
        """Without the gradients of what no rank used, which are zero only because something had to be summed."""
        if used is None:
            return gradients
        for parameter, mark in zip(self.trained.values(), used, strict=True):
            if not mark:
                parameter.grad = None
        return [gradient for gradient, mark in zip(gradients, used, strict=True) if mark]

    def _update(self, gradients: list[Tensor], rate: float, factor: Tensor | float) -> None:
        """One step of AdamW. The factor turns the gradient of the summed loss into that of the mean loss, clipped."""
        torch._foreach_mul_(gradients, factor)  # type: ignore[arg-type]
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        if self.smooth:
            # a short memory at first, or the initial weights would weigh on it for 1 / (1 - decay) steps
            decay = min(self.settings.ema, (1 + self.ledger.step) / (10 + self.ledger.step))
            with torch.no_grad():
                smooth, trained = (list(map(local, some.values())) for some in (self.smooth, self.trained))
                torch._foreach_lerp_(smooth, trained, 1 - decay)

    def _log(self, rate: float, norm: float, norms: Tensor | None, units: int) -> None:
        """`norm`, and the `norms` of its parts, are of a loss summed over so many `units`."""
        ledger, now = self.ledger, time.monotonic()
        speed = (ledger.units - self._units_at_log) / max(1e-9, now - self._logged_at)
        self._logged_at, self._units_at_log = now, ledger.units
        loss = ledger.window_loss / ledger.window_units if ledger.window_units else math.nan
        ledger.window_loss, ledger.window_units = 0.0, 0
        epoch = ledger.cursor.get("epoch", 0)
        units = max(1, units)
        layers = by_layer(self.trained, (norms / units).tolist()) if norms is not None else {}
        self.report.log(Log(ledger.step, epoch, loss, rate, norm / units, ledger.units, speed, layers))

    # ---------------------------------------------------------------------------------------------------- validation

    def _validation_is_due(self, ending: str) -> bool:
        if self.validate is None or self.ledger.validated == self.ledger.step:
            return False
        return bool(ending) or self._every(self.settings.validate_every)

    def _validate_start(self) -> None:
        """Scores the model that fine-tuning starts from, once."""
        if self.fine_tuning and self.validate and self.ledger.step == 0 and not self.ledger.start_scores:
            validation = self._validated()
            self.ledger.start_scores = dict(validation.scores)
            self.report.validated(0, validation)

    def _compare_with_start(self, scores: dict[str, float]) -> None:
        """Says what fine-tuning changed on held-out text."""
        before = self.ledger.start_scores
        if not before or not scores:
            return
        metric = self._metric(scores)
        change = f"{metric} {before[metric]:.4g} before fine-tuning, {scores[metric]:.4g} after"
        worse = scores[metric] > before[metric] if metric in ERRORS else scores[metric] < before[metric]
        if worse:
            self._note(
                f"warning: fine-tuning made held-out text worse: {change}; try fewer training.steps, a lower "
                f"training.learning_rate than {self.settings.learning_rate:g}, or more data"
            )
        else:
            self._note(f"held-out text: {change}")

    def _validated(self) -> Validation:
        """What rank 0 finds; all ranks get the scores."""
        if self.sharded:
            found = self._whole_weights()
            if self.ranks.is_first:
                self._put(self.weights, found)
        validations: list[Validation] = []

        def scores() -> dict[str, float] | None:
            if validation := self._validated_here(smooth=not self.sharded):
                validations.append(validation)
            return validation.scores if validation else None

        told = self.ranks.first(scores)
        if told is None:
            raise Interrupted
        return validations[0] if validations else Validation(told)

    def _validated_here(self, smooth: bool) -> Validation | None:
        """Validates without a trace: mode, random numbers and weights are as before. None when a signal ended it."""
        assert self.validate is not None
        devices = [self.device] if self.device.type == "cuda" else []
        began = time.monotonic()
        try:
            with self._interruption.breakable(), torch.random.fork_rng(devices), self._smoothed(smooth):
                self.model.to(self.device).eval()
                with torch.no_grad():
                    validation = self.validate(self.model)
        except Interrupted:
            return None
        finally:
            self.model.train()
            if self.sharded:
                self.model.cpu()
        self._logged_at += time.monotonic() - began  # the speed shown is that of training
        self._metric(validation.scores)
        return validation

    def _metric(self, scores: dict[str, float]) -> str:
        """The score that the best is chosen by: the one the recipe names, or the first there is."""
        name = self.settings.metric or next(iter(scores))
        if name not in scores:
            raise UserError(f"training.metric: validation gives no '{name}'{suggestion(name, scores)}")
        return name

    @contextlib.contextmanager
    def _smoothed(self, wanted: bool) -> Iterator[None]:
        """The averaged weights take the place of the trained ones for a while."""
        if not (self.smooth and wanted):
            yield
            return
        own = {name: parameter.data for name, parameter in self.trained.items()}
        try:
            for name, parameter in self.trained.items():
                parameter.data = self.smooth[name]
            yield
        finally:
            for name, parameter in self.trained.items():
                parameter.data = own[name]

    def _judge(self, validation: Validation) -> bool:
        """Writes the scores into the ledger; True when they are the best so far."""
        ledger = self.ledger
        ledger.validated = ledger.step
        score = validation.scores[self._metric(validation.scores)]
        improved = self._better(validation.scores)
        if improved:
            ledger.best_score, ledger.best_step, ledger.best_scores = score, ledger.step, dict(validation.scores)
        ledger.waited = 0 if improved else ledger.waited + 1
        self.report.validated(ledger.step, validation)
        return improved

    def _better(self, scores: dict[str, float]) -> bool:
        metric, best = self._metric(scores), self.ledger.best_score
        if not math.isfinite(scores[metric]):
            return False
        return best is None or (scores[metric] < best if metric in ERRORS else scores[metric] > best)

    # -------------------------------------------------------------------------------------------- to and from the disk

    def _save(self, best: bool = False, interrupted: bool = False) -> None:
        self._settle()
        state: dict[str, Tensor] = {}
        if self.smooth:  # the folder's weights are then the average, which is what one wants to use
            state |= {f"trained.{name}": parameter for name, parameter in self.trained.items()}
        for name, parameter in self.trained.items():
            state |= {f"{slot}.{name}": tensor for slot, tensor in self.optimizer.state.get(parameter, {}).items()}
        weights = self._whole_weights()
        staged = self.checkpoints.folder / f".step-{self.ledger.step:08d}.shares.tmp"
        if self.sharded:  # each rank writes its share, and rank 0 moves them all into the checkpoint
            if state:
                write_shares(state, staged)
            state = {}

        def write() -> None:
            tensors = {f"random.{name}": state for name, state in random_states(self.device).items()} | state
            files: dict[str, bytes | Callable[[Path], None]] = {
                **self.model_files(weights),
                OPTIMIZER: save_tensors(tensors),
                LEDGER: json.dumps(asdict(self.ledger), indent=1).encode(),
            }
            if self.sharded:
                files |= {file.name: partial(os.replace, file) for file in share_files(staged)}
            self.checkpoints.save(self.ledger.step, files, best, interrupted)

        self.ranks.first(write)
        self._saved = self.ledger.step

    def _whole_weights(self) -> dict[str, Tensor]:
        """All weights as they are to be used. With shares every rank must ask, and rank 0 alone gets them."""
        found = {}
        for name, tensor in {**self.held, **self.smooth}.items():
            full = whole(tensor.detach())
            if self.ranks.is_first:
                found[name] = full.cpu()
        return found

    def _load(self, folder: Folder) -> None:
        self.ledger = self._read_ledger(folder)
        self._put(self.held, folder.weights())
        tensors = self._read_state(folder)
        if self.smooth:
            for name in self.smooth:
                if f"trained.{name}" not in tensors:
                    raise UserError(f"{folder.path}: was trained with training.ema = 0; resuming cannot turn it on")
                self.smooth[name].copy_(self.trained[name].detach())
                self.trained[name].data.copy_(tensors[f"trained.{name}"])
        for name, parameter in self.trained.items():
            slots = {slot: tensors.get(f"{slot}.{name}") for slot in SLOTS}
            held = {slot: tensor.to(self.device) for slot, tensor in slots.items() if tensor is not None}
            if held:
                self.optimizer.state[parameter] = held
        self._random = {key.removeprefix("random."): t for key, t in tensors.items() if key.startswith("random.")}
        self.stream.seek(self.ledger.cursor)

    def _read_state(self, folder: Folder) -> dict[str, Tensor]:
        """Optimizer and random states: of one file, or of shares, whoever wrote it; whole, or this rank's share."""
        stored = folder.tensors(OPTIMIZER)
        if not self.sharded and not any(name.startswith(SHARD) for name in folder.names):
            return stored
        wanted: dict[str, Tensor] = {}
        for name, parameter in self.trained.items():
            like = parameter.detach() if self.sharded else torch.empty(parameter.shape)
            wanted |= {f"{slot}.{name}": torch.empty_like(like) for slot in ("trained", *SLOTS[1:])}
            wanted[f"step.{name}"] = torch.zeros(())
        found = read_shares(wanted, folder.path, alone=not self.sharded)
        states = {name: tensor for name, tensor in stored.items() if name.startswith("random.")}
        return states | {name: wanted[name] for name in found}

    def _read_ledger(self, folder: Folder) -> Ledger:
        try:
            values = json.loads(folder.read(LEDGER))
            values.setdefault("start_scores", {})  # checkpoints of earlier versions have none
            ledger = Ledger(**{f.name: values[f.name] for f in fields(Ledger)})
        except (ValueError, KeyError, TypeError, AttributeError):
            raise UserError(f"{folder.path / LEDGER}: cannot be understood; another version wrote it") from None
        for name, now in (("seed", self.ledger.seed), ("batch_tokens", self.ledger.batch_tokens)):
            if getattr(ledger, name) != now:  # the cursor would point to other batches
                raise UserError(
                    f"{name} was {getattr(ledger, name)} when {folder.path} was saved and is {now} now; "
                    "resume with the same, or start a new run from its weights (training.from)"
                )
        return ledger

    def _put(self, into: dict[str, Tensor], weights: dict[str, Tensor]) -> None:
        """Copies weights into those of the model, which must be exactly these."""
        for name in into.keys() ^ weights.keys():
            holder = "the checkpoint" if name in weights else "the model"
            raise UserError(f"only {holder} has '{name}'; resume with the recipe of the run")
        with torch.no_grad():
            for name, tensor in into.items():
                if tensor.shape != weights[name].shape:
                    shapes = f"{tuple(tensor.shape)} in the model and {tuple(weights[name].shape)} in the checkpoint"
                    raise UserError(f"'{name}' is {shapes}; resume with the recipe of the run")
                put(tensor, weights[name])

    def _release(self) -> None:
        if self._lock:
            self._lock.release()
            self._lock = None

    @contextlib.contextmanager
    def _release_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._release()
            raise


def named_weights(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and persistent buffers by name; what is tied appears once, under its first name."""
    found: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        found.setdefault(id(tensor), (name, tensor))
    return dict(found.values())


def adam_w(parameters: list[nn.Parameter], settings: Training, device: torch.device) -> torch.optim.AdamW:
    """AdamW in one kernel where there is one. Gains and biases (1-D) are not decayed."""
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": settings.weight_decay},
        {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=settings.learning_rate,
        betas=(settings.beta1, settings.beta2),
        eps=settings.epsilon,
        fused=device.type in ("cpu", "cuda"),
    )


def random_states(device: torch.device) -> dict[str, Tensor]:
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def set_random_states(states: dict[str, Tensor], device: torch.device) -> None:
    """A run that moves from one kind of device to another keeps what it can."""
    torch.set_rng_state(states["cpu"])
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"], device)
