"""The training loop: at each step validate, save or stop if that is due, then take the next step.

It knows data as a stream of batches with a cursor, and nothing of files.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from regard.training.interruption import Interrupted, Interruption
from regard.training.listener import Listener
from regard.training.ranks import Ranks
from regard.training.step import Step
from regard.training.validation import Validator
from regard.types import Batch, BatchStream

if TYPE_CHECKING:
    from regard.training.saving import Saver


class Loop:
    """Trains until the steps, the time or the patience is used up."""

    def __init__(
        self,
        step: Step,
        validator: Validator,
        saver: Saver,
        stream: BatchStream,
        ranks: Ranks,
        interruption: Interruption,
        report: Listener,
        fine_tuning: bool,
    ) -> None:
        self.step, self.validator, self.saver, self.stream = step, validator, saver, stream
        self.ranks, self.interruption, self.report = ranks, interruption, report
        self.settings, self.state = step.settings, step.state
        self.device = step.device
        self.fine_tuning = fine_tuning

    def run(self) -> str:
        """Each turn does what is due at the current step, then takes the next one. Returns why training ended:
        steps, minutes or patience. Raises Interrupted when a signal asks to stop."""
        state, settings, strategy = self.state, self.settings, self.step.strategy
        self.step.start()
        strategy.placement.train()
        with contextlib.closing(iter(self.stream)) as stream:
            batches: list[Batch] = []
            if self.fine_tuning:
                with self._not_training():
                    self.validator.score_start(self.step.average.weights)
            while True:
                if strategy.should_stop(self.interruption.requested):
                    raise Interrupted
                if settings.minutes:
                    state.seconds = strategy.time_spent(self.step.elapsed(), state.seconds)
                ending, improved = self._ending(), False
                if self.validator.due(bool(ending)):
                    with self._not_training():
                        improved = self.validator.improved(self.step.average.weights)
                    ending = ending or self._ending()
                if self.saver.saved != state.step and (ending or improved or state.every(settings.save_every)):
                    self.saver.save(best=improved)
                if ending:
                    return ending
                batches = batches or self._draw(stream)
                cursor, state.cursor = state.cursor, self.stream.cursor()
                batches = self.step.take(batches, cursor, lambda: self._draw(stream))
                self.report.advance(state.step)

    def _draw(self, stream: Iterator[Batch]) -> list[Batch]:
        """This rank's batches of one step, being copied to the device."""
        drawn = []
        for number in range(self.settings.accumulate):
            batch = next(stream)
            if number % self.ranks.size == self.ranks.rank:
                drawn.append(batch.pin().to(self.device) if self.device.type == "cuda" else batch.to(self.device))
        return drawn

    def _ending(self) -> str:
        """Why training ends at the current step; empty if it does not."""
        if self.state.step >= self.settings.steps:
            return "steps"
        if self.settings.minutes and self.state.seconds >= 60 * self.settings.minutes:
            return "minutes"
        if self.settings.patience and self.state.waited >= self.settings.patience:
            return "patience"
        return ""

    @contextlib.contextmanager
    def _not_training(self) -> Iterator[None]:
        """Its time does not count in the throughput that the log shows."""
        began = time.monotonic()
        yield
        self.step.exclude(time.monotonic() - began)
