"""One training step: forward, backward, clip, update. It knows a model as something with `.loss(batch)`.

How gradients are computed and combined is the strategy's business (strategy.py).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard import registry
from regard.device import is_out_of_memory
from regard.errors import UserError
from regard.training.gradient_norms import by_layer
from regard.training.interruption import Interruption
from regard.training.listener import Listener, Log
from regard.training.optimizer import WeightAverage, adam_w
from regard.training.state import TrainingState
from regard.training.strategy import Note, Part, Strategy
from regard.types import Batch

if TYPE_CHECKING:
    from regard.config import Training


class Unread(NamedTuple):
    """A step whose update is queued on the device and whose numbers the host has not read yet."""

    numbers: Tensor
    """Loss and norm, being copied to the host."""
    arrived: torch.cuda.Event | None
    units: int
    step: int
    cursor: dict[str, int]


class Step:
    """Takes training steps and keeps count of them in the training state."""

    def __init__(
        self,
        strategy: Strategy,
        settings: Training,
        state: TrainingState,
        interruption: Interruption,
        report: Listener,
        note: Note,
    ) -> None:
        """`note` is for what happens to all ranks, `report.note` for what happens to this one."""
        self.strategy, self.settings, self.state = strategy, settings, state
        self.interruption, self.report, self.note = interruption, report, note
        self.device = strategy.placement.device
        self.optimizer = adam_w(list(strategy.placement.trained.values()), settings, self.device)
        self.average = WeightAverage(strategy.placement, settings.ema)
        self.schedule = learning_rate_schedule(settings)
        self.reads_late = strategy.reads_late and not settings.ema
        """Whether a step's numbers are read while the next one runs, so that the GPU never waits for the host."""
        self._unread: Unread | None = None
        self.start()

    def start(self) -> None:
        """Starts the clocks."""
        self._began = time.monotonic() - self.state.seconds
        self._logged_at, self._units_at_log = time.monotonic(), self.state.units

    def elapsed(self) -> float:
        """Training time in seconds, that of resumed runs included."""
        return time.monotonic() - self._began

    def exclude(self, seconds: float) -> None:
        """Leaves time that was not spent training out of the throughput."""
        self._logged_at += seconds

    def take(self, batches: list[Batch], cursor: dict[str, int], draw: Callable[[], list[Batch]]) -> list[Batch]:
        """One update, or none when a number is not finite. Returns the next step's batches.

        `cursor` is where the batches came from; `draw` gets the next ones while the device still works.
        """
        strategy, state = self.strategy, self.state
        before = [buffer.clone() for buffer in strategy.placement.buffers]
        parts = strategy.parts(batches)
        following: list[Batch] = []
        while True:
            loss, units, fits = self._backward(parts, cursor)
            gradients = strategy.gradients()
            norm = nn.utils.get_total_norm(gradients)
            numbers = strategy.combine(loss, norm, units, fits, self.interruption.requested, self.elapsed())
            norms = self._norms()
            if self.reads_late:
                return self._update_unread(gradients, numbers, norms, units, cursor, before, draw)
            following = following or draw()
            sums = strategy.read(numbers, units)  # the only line that waits for the device
            if not sums.again:
                break
        if self.settings.minutes and sums.seconds is not None:
            state.seconds = sums.seconds
        state.step += 1
        rate = self.schedule(schedule_step(self.settings, state))
        if sums.units and math.isfinite(sums.loss) and math.isfinite(sums.norm):
            mean_norm = sums.norm / sums.units
            clipped = min(1.0, self.settings.clip / mean_norm) if self.settings.clip and mean_norm else 1.0
            self._update(strategy.gradients(sums), rate, clipped / sums.units)
        else:
            for buffer, old in zip(strategy.placement.buffers, before, strict=True):
                buffer.copy_(old)
        self._count(sums.loss, sums.norm, sums.units, state.step, cursor)
        strategy.release()
        if state.every(self.settings.log_every):
            self._log(rate, sums.norm, norms, sums.units)
        return following

    def flush(self) -> float:
        """Reads and counts the step that is still unread, if any; returns the norm of its gradient."""
        unread, self._unread = self._unread, None
        if unread is None:
            return 0.0
        if unread.arrived:
            unread.arrived.synchronize()
        loss, norm = unread.numbers.tolist()
        self._count(loss, norm, unread.units, unread.step, unread.cursor)
        return norm

    def _update_unread(
        self,
        gradients: list[Tensor],
        numbers: Tensor,
        norms: Tensor | None,
        units: int,
        cursor: dict[str, int],
        before: list[Tensor],
        draw: Callable[[], list[Batch]],
    ) -> list[Batch]:
        """The rest of a step without waiting for its numbers: the device itself skips an update that is not finite."""
        self.state.step += 1
        rate = self.schedule(schedule_step(self.settings, self.state))
        if units:
            bad = ~numbers.isfinite().all()
            clipped = (self.settings.clip * units / numbers[1]).clamp(max=1.0) if self.settings.clip else 1.0
            self.optimizer.found_inf = bad.float()  # type: ignore[attr-defined] # as torch.amp.GradScaler sets it
            self._update(gradients, rate, clipped / units)
            for buffer, old in zip(self.strategy.placement.buffers, before, strict=True):
                buffer.copy_(torch.where(bad, old, buffer))
        self.strategy.release()
        arrived = torch.cuda.Event() if self.device.type == "cuda" else None
        unread = Unread(numbers.to("cpu", non_blocking=True), arrived, units, self.state.step, cursor)
        if arrived:
            arrived.record()
        following = draw()
        self.flush()
        self._unread = unread
        if self.state.every(self.settings.log_every):
            norm = self.flush()  # after which the norms have arrived, too
            self._log(rate, norm, norms, units)
        return following

    def _backward(self, parts: list[Part], cursor: dict[str, int]) -> tuple[Tensor, int, bool]:
        """Leaves the gradient of the summed loss in the parameters. Returns loss, units and whether all parts fit.

        A part that does not fit in memory is split. It may have left half its gradients behind, so the step starts
        again with the smaller parts: here, or on all ranks (False is returned) if they had begun to combine gradients.
        """
        while True:
            self.strategy.begin(parts)
            total, units, too_large = torch.zeros((), device=self.device), 0, -1
            for index, part in enumerate(parts):
                if part.number is not None:
                    torch.manual_seed(part_seed(self.state, part.number))
                try:
                    loss = self.strategy.backward(part, last=index + 1 == len(parts))
                except (RuntimeError, MemoryError) as error:
                    if not is_out_of_memory(error):
                        raise
                    too_large = index
                    break
                if part.counts:
                    total = total + loss.total.detach().float()
                    units += loss.units
            loss = None  # type: ignore[assignment] # frees its device memory before the next attempt
            if too_large >= 0:
                where = f"step {self.state.step + 1}, batch {cursor}"
                if not self.strategy.out_of_memory(len(parts[too_large].batch), where):
                    self._split(parts, too_large, where)
            combined = self.strategy.end()
            if too_large < 0 or combined:
                return total, units, too_large < 0

    def _split(self, parts: list[Part], index: int, where: str) -> None:
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        batch, number, _ = parts[index]
        done = "is split in two" if len(batch) > 1 else "is left out"
        self.report.note(f"{where}: {len(batch)} rows do not fit in memory; this part {done}")
        pieces = batch.split() if len(batch) > 1 else []
        parts[index : index + 1] = [Part(piece, None if i else number) for i, piece in enumerate(pieces)]

    def _update(self, gradients: list[Tensor], rate: float, factor: Tensor | float) -> None:
        """One step of AdamW. The factor turns the gradient of the summed loss into that of the mean loss, clipped."""
        torch._foreach_mul_(gradients, factor)  # type: ignore[arg-type]
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.average.update(self.state.step)

    def _count(self, loss: float, norm: float, units: int, step: int, cursor: dict[str, int]) -> None:
        """Counts a step. One that was not finite was no update, and many such in a row end the run."""
        state = self.state
        if not units:
            return
        if math.isfinite(loss) and math.isfinite(norm):
            state.bad = 0
            state.units += units
            state.window_loss += loss
            state.window_units += units
            return
        state.bad += 1
        where = f"step {step}, batch {cursor}"
        self.note(f"{where}: skipped, because the loss ({loss}) or the gradient's norm ({norm}) is not finite")
        if state.bad >= max(1, self.settings.bad_steps):
            raise UserError(
                f"{where}: {state.bad} steps in a row were not finite; "
                "resume with a lower training.learning_rate or look at the data there"
            )

    def _norms(self) -> Tensor | None:
        """The gradient norm of each parameter, being copied to the host, if this step is to be logged."""
        every = self.settings.log_every
        if every <= 0 or (self.state.step + 1) % every:
            return None
        norms = self.strategy.norms()
        return None if norms is None else norms.to("cpu", non_blocking=True)

    def _log(self, rate: float, norm: float, norms: Tensor | None, units: int) -> None:
        """`norm` and `norms` are of a loss summed over `units`; the log has those of the mean loss."""
        state, now = self.state, time.monotonic()
        speed = (state.units - self._units_at_log) / max(1e-9, now - self._logged_at)
        self._logged_at, self._units_at_log = now, state.units
        loss = state.window_loss / state.window_units if state.window_units else math.nan
        state.window_loss, state.window_units = 0.0, 0
        epoch = state.cursor.get("epoch", 0)
        units = max(1, units)
        layers = by_layer(self.strategy.placement.trained, (norms / units).tolist()) if norms is not None else {}
        self.report.log(Log(state.step, epoch, loss, rate, norm / units, state.units, speed, layers))


def learning_rate_schedule(settings: Training) -> Callable[[int], float]:
    """The learning rate as a function of the step: `training.schedule`, a kind or a table with its keywords."""
    offered = {"learning_rate": settings.learning_rate, "warmup": settings.warmup, "steps": settings.steps}
    schedule: Callable[[int], float] = registry.build(
        "training/schedule", settings.schedule, "training.schedule", **offered
    )
    return schedule


def schedule_step(settings: Training, state: TrainingState) -> int:
    """The step to ask the schedule for: where the time limit comes before the last step, it follows the time."""
    if not settings.minutes:
        return state.step
    by_time = int(settings.steps * state.seconds / (60 * settings.minutes))
    return max(state.step, min(settings.steps, by_time))


def part_seed(state: TrainingState, number: int) -> int:
    """The seed of a step's batch, whichever rank computes it."""
    return int(np.random.SeedSequence([state.seed, state.step, number]).generate_state(1, np.uint64)[0])
