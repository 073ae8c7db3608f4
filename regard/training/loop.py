"""The training loop. It knows a model as something with `.loss(batch)`, and data as a stream with a cursor.

Killed at any moment and resumed, a run goes on as if nothing had happened: on the CPU to the last bit. So everything
that the next step depends on is either in `Ledger` or a tensor in optimizer.safetensors.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

import torch
from torch import Tensor, nn

from regard import registry
from regard.config import Training
from regard.device import mixed_precision, pick_device
from regard.errors import UserError, suggestion
from regard.storage import Folder, clean_leftovers, read_folder, save_tensors, write_folder
from regard.training.checkpoints import Checkpoints, Lock, average
from regard.training.interruption import Interrupted, Interruption
from regard.training.progress import Listener, Log, Quiet
from regard.types import Batch, BatchStream, Validation

OPTIMIZER, LEDGER = "optimizer.safetensors", "training.json"
ERRORS = ("loss", "perplexity", "loss_per_character", "nll_per_step", "error", "wer", "mse", "mae")
"""Scores of which less is better."""


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
    ) -> None:
        """`model_files` turns weights into the files of a model folder; it must keep them unrounded."""
        self.settings = settings
        self.folder = Path(folder)
        self.device = pick_device(settings.device)
        self.precision = mixed_precision(settings.precision, self.device)
        self.model = model.to(self.device)
        self.stream = stream
        self.model_files = model_files
        self.validate = validate
        self.report = report or Quiet()
        self.checkpoints = Checkpoints(self.folder, settings.keep, settings.average, warn=self.report.note)
        self.weights = named_weights(self.model)
        self.trained = {n: p for n, p in self.weights.items() if isinstance(p, nn.Parameter) and p.requires_grad}
        self.buffers = [t for t in self.weights.values() if not isinstance(t, nn.Parameter) and t.is_floating_point()]
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
        self._random: dict[str, Tensor] | None = None
        self._saved = -1
        self._lock: Lock | None = None
        self._interruption = Interruption()
        self._logged_at, self._units_at_log = time.monotonic(), 0

    # ------------------------------------------------------------------------------------------------- the whole run

    def resume(self) -> int:
        """Takes up the newest whole checkpoint, or begins when nothing was saved yet. Returns the step it stands at."""
        with self._release_on_error():
            self._lock = self._lock or Lock(self.folder)
            newest = self.checkpoints.newest_valid()
            if newest is None:
                self.report.note(f"{self.folder} holds no checkpoint yet: starting at step 0")
                return 0
            saved, folder = newest
            self._load(folder)
            self._saved = saved.step if saved.regular else -1
            self.report.note(f"going on from step {saved.step}")
            return self.ledger.step

    def fit(self) -> Result:
        """Trains until the steps, the time or the patience is used up, or a signal comes; leaves everything saved."""
        with self._release_on_error(), self._interruption, contextlib.closing(self.report):
            self._lock = self._lock or Lock(self.folder)
            if self._random is None:
                if self.checkpoints.all():
                    raise UserError(f"{self.folder} already holds a run; resume it or choose another folder")
                torch.manual_seed(self.ledger.seed)
            else:
                set_random_states(self._random, self.device)
            clean_leftovers(self.folder)
            clean_leftovers(self.checkpoints.folder)
            self.report.start(self.ledger.step, self.settings.steps)
            try:
                return self._finish(self._run())
            except Interrupted:
                if self._saved != self.ledger.step:
                    self._save(interrupted=True)
                self.report.note(f"interrupted and saved at step {self.ledger.step}; resume to go on")
                return self._result("interrupted")
            finally:
                self._release()

    def _run(self) -> str:
        """Each turn does what is due at the step reached, then takes the next one. Returns the reason of the end."""
        began = time.monotonic() - self.ledger.seconds
        self._logged_at, self._units_at_log = time.monotonic(), self.ledger.units
        batches = iter(self.stream)
        self.model.train()
        try:
            following: list[Batch] = []
            while True:
                self._interruption.check()
                if self.settings.minutes:
                    self.ledger.seconds = time.monotonic() - began
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
        folders = [folder for saved in self.checkpoints.to_average() if (folder := self._whole(saved.path))]
        if not folders:
            raise UserError(f"{self.checkpoints.folder}: no whole checkpoint is left to make a model of")
        self._put(average(folders))
        scores = self.ledger.best_scores
        if self.validate and len(folders) > 1:
            mean = self._validated(smooth=False).scores
            metric = self._metric(mean)
            alone = self.ledger.best_scores.get(metric, math.nan)
            found = f"{len(folders)} checkpoints averaged: {metric} {mean[metric]:.4g}, the best alone: {alone:.4g}"
            if self._better(mean):
                scores = mean
                self.report.note(f"{found}; the average is kept")
            else:
                self._put(folders[-1].weights())
                self.report.note(f"{found}; the best is kept")
        path = self.folder / "model"
        write_folder(path, self.model_files({name: t.detach().cpu() for name, t in self.weights.items()}))
        return self._result(reason, scores, path)

    def _whole(self, path: Path) -> Folder | None:
        try:
            return read_folder(path)
        except UserError as error:
            self.report.note(f"left out of the average: {error}")
            return None

    def _result(self, reason: str, scores: dict[str, float] | None = None, model: Path | None = None) -> Result:
        return Result(self.ledger.step, reason, self.ledger.best_step, scores or self.ledger.best_scores, model)

    # ------------------------------------------------------------------------------------------------------ one step

    def _draw(self, batches: Iterator[Batch]) -> list[Batch]:
        """The batches of one step, on their way to the device."""
        drawn = []
        for _ in range(max(1, self.settings.accumulate)):
            batch = next(batches)
            drawn.append(batch.pin().to(self.device) if self.device.type == "cuda" else batch.to(self.device))
        return drawn

    def _step(self, batches: list[Batch], stream: Iterator[Batch]) -> list[Batch]:
        """One update (or none, when a number is not finite). Returns the batches of the next step."""
        ledger = self.ledger
        cursor, ledger.cursor = ledger.cursor, self.stream.cursor()
        kept = [buffer.clone() for buffer in self.buffers]
        total, units = self._gradients(batches, cursor)
        gradients = [p.grad for p in self.trained.values() if p.grad is not None]
        numbers = torch.stack([total, nn.utils.get_total_norm(gradients).to(total)])
        following = self._draw(stream)  # copied while the device still works
        loss, norm = numbers.tolist()  # the one place that waits for it
        ledger.step += 1
        rate = self.schedule(ledger.step)
        if units and math.isfinite(loss) and math.isfinite(norm):
            self._update(gradients, rate, norm, units)
            ledger.bad = 0
            ledger.units += units
            ledger.window_loss += loss
            ledger.window_units += units
        elif units:
            for buffer, before in zip(self.buffers, kept, strict=True):
                buffer.copy_(before)
            self._count_bad(loss, norm, cursor)
        self.optimizer.zero_grad(set_to_none=True)
        if self._every(self.settings.log_every):
            self._log(rate, norm / max(1, units))
        return following

    def _gradients(self, batches: list[Batch], cursor: dict[str, int]) -> tuple[Tensor, int]:
        """Leaves the gradient of the summed loss in the parameters. A batch that does not fit in memory is halved.

        What did not fit may have left half its gradients behind, so the step is begun again with the smaller parts.
        """
        parts = list(batches)
        while True:
            self.optimizer.zero_grad(set_to_none=True)
            total, units = torch.zeros((), device=self.device), 0
            too_large = -1
            for index, part in enumerate(parts):
                try:
                    with torch.autocast(self.device.type, self.precision, enabled=self.precision is not None):
                        loss = self.model.loss(part)  # type: ignore[operator]
                    loss.total.backward()
                except (RuntimeError, MemoryError) as error:
                    if not _out_of_memory(error):
                        raise
                    too_large = index
                    break
                total = total + loss.total.detach().float()
                units += loss.units
            loss = None  # what it holds of the device must be free before the next attempt
            if too_large < 0:
                return total, units
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
            part = parts[too_large]
            done = "is split in two" if len(part) > 1 else "is left out"
            self.report.note(
                f"step {self.ledger.step + 1}, batch {cursor}: {len(part)} rows do not fit in memory; this part {done}"
            )
            parts[too_large : too_large + 1] = part.split() if len(part) > 1 else []

    def _update(self, gradients: list[Tensor], rate: float, norm: float, units: int) -> None:
        """One step of AdamW with the gradient of the mean loss, clipped. `norm` is that of the summed loss."""
        mean_norm = norm / units
        clipped = min(1.0, self.settings.clip / mean_norm) if self.settings.clip and mean_norm else 1.0
        torch._foreach_mul_(gradients, clipped / units)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        if self.smooth:
            # a short memory at first, or the initial weights would weigh on it for 1 / (1 - decay) steps
            decay = min(self.settings.ema, (1 + self.ledger.step) / (10 + self.ledger.step))
            with torch.no_grad():
                torch._foreach_lerp_(list(self.smooth.values()), list(self.trained.values()), 1 - decay)

    def _count_bad(self, loss: float, norm: float, cursor: dict[str, int]) -> None:
        self.ledger.bad += 1
        where = f"step {self.ledger.step}, batch {cursor}"
        self.report.note(f"{where}: skipped, because the loss ({loss}) or the gradient's norm ({norm}) is not finite")
        if self.ledger.bad >= max(1, self.settings.bad_steps):
            raise UserError(
                f"{where}: {self.ledger.bad} steps in a row were not finite; "
                "resume with a lower training.learning_rate or look at the data there"
            )

    def _log(self, rate: float, norm: float) -> None:
        ledger, now = self.ledger, time.monotonic()
        speed = (ledger.units - self._units_at_log) / max(1e-9, now - self._logged_at)
        self._logged_at, self._units_at_log = now, ledger.units
        loss = ledger.window_loss / ledger.window_units if ledger.window_units else math.nan
        ledger.window_loss, ledger.window_units = 0.0, 0
        epoch = ledger.cursor.get("epoch", 0)
        self.report.log(Log(ledger.step, epoch, loss, rate, norm, ledger.units, speed))

    # ---------------------------------------------------------------------------------------------------- validation

    def _validation_is_due(self, ending: str) -> bool:
        if self.validate is None or self.ledger.validated == self.ledger.step:
            return False
        return bool(ending) or self._every(self.settings.validate_every)

    def _validated(self, smooth: bool = True) -> Validation:
        """Validates without a trace: mode, random numbers and weights are as before, even when a signal ends it."""
        assert self.validate is not None
        devices = [self.device] if self.device.type == "cuda" else []
        began = time.monotonic()
        try:
            with self._interruption.breakable(), torch.random.fork_rng(devices), self._smoothed(smooth):
                self.model.eval()
                with torch.no_grad():
                    validation = self.validate(self.model)
        finally:
            self.model.train()
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
        weights = {name: t.detach().cpu() for name, t in {**self.weights, **self.smooth}.items()}
        tensors = {f"random.{name}": state for name, state in random_states(self.device).items()}
        if self.smooth:  # the folder's weights are then the average, which is what one wants to use
            tensors |= {f"trained.{name}": parameter for name, parameter in self.trained.items()}
        for name, parameter in self.trained.items():
            tensors |= {f"{slot}.{name}": tensor for slot, tensor in self.optimizer.state.get(parameter, {}).items()}
        files = {
            **self.model_files(weights),
            OPTIMIZER: save_tensors(tensors),
            LEDGER: json.dumps(asdict(self.ledger), indent=1).encode(),
        }
        self.checkpoints.save(self.ledger.step, files, best, interrupted)
        self._saved = self.ledger.step

    def _load(self, folder: Folder) -> None:
        self.ledger = self._read_ledger(folder)
        self._put(folder.weights())
        tensors = folder.tensors(OPTIMIZER)
        if self.smooth:
            for name in self.smooth:
                if f"trained.{name}" not in tensors:
                    raise UserError(f"{folder.path}: was trained with training.ema = 0; resuming cannot turn it on")
                self.smooth[name].copy_(self.trained[name].detach())
                self.trained[name].data.copy_(tensors[f"trained.{name}"])
        for name, parameter in self.trained.items():
            slots = {slot: tensors.get(f"{slot}.{name}") for slot in ("step", "exp_avg", "exp_avg_sq")}
            held = {slot: tensor.to(self.device) for slot, tensor in slots.items() if tensor is not None}
            if held:
                self.optimizer.state[parameter] = held
        self._random = {key.removeprefix("random."): t for key, t in tensors.items() if key.startswith("random.")}
        self.stream.seek(self.ledger.cursor)

    def _read_ledger(self, folder: Folder) -> Ledger:
        try:
            values = json.loads(folder.read(LEDGER))
            ledger = Ledger(**{f.name: values[f.name] for f in fields(Ledger)})
        except (ValueError, KeyError, TypeError):
            raise UserError(f"{folder.path / LEDGER}: cannot be understood; another version wrote it") from None
        for name, now in (("seed", self.ledger.seed), ("batch_tokens", self.ledger.batch_tokens)):
            if getattr(ledger, name) != now:  # the cursor would point to other batches
                raise UserError(
                    f"{name} was {getattr(ledger, name)} when {folder.path} was saved and is {now} now; "
                    "resume with the same, or start a new run from its weights (training.from)"
                )
        return ledger

    def _put(self, weights: dict[str, Tensor]) -> None:
        """Copies weights into the model, which must have exactly these."""
        for name in self.weights.keys() ^ weights.keys():
            holder = "the checkpoint" if name in weights else "the model"
            raise UserError(f"only {holder} has '{name}'; resume with the recipe of the run")
        with torch.no_grad():
            for name, tensor in self.weights.items():
                if tensor.shape != weights[name].shape:
                    shapes = f"{tuple(tensor.shape)} in the model and {tuple(weights[name].shape)} in the checkpoint"
                    raise UserError(f"'{name}' is {shapes}; resume with the recipe of the run")
                tensor.copy_(weights[name])

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


def _out_of_memory(error: BaseException) -> bool:
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or any(
        words in str(error) for words in ("out of memory", "not enough memory", "allocate memory")
    )
