"""The trainer of a run: puts its parts together, resumes from checkpoints and writes the final model.

Several ranks (ranks.py) train as one: a step's batches are divided among them, and all they decide, they decide by sums
over all ranks. So all have the same training state; rank 0 alone reads and writes the run's folder.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor, nn

from regard.device import mixed_precision
from regard.errors import UserError
from regard.storage import Folder, clean_leftovers, read_folder
from regard.training.checkpoints import Checkpoints, Lock
from regard.training.defaults import with_defaults
from regard.training.distributed import restarts
from regard.training.final_model import write_final_model
from regard.training.interruption import Interrupted, Interruption
from regard.training.listener import Listener, Quiet
from regard.training.loop import Loop
from regard.training.ranks import Ranks
from regard.training.saving import Saver
from regard.training.state import TrainingState
from regard.training.step import Step
from regard.training.strategy import choose_strategy
from regard.training.validation import Validator
from regard.types import BatchStream, Better, Validation

if TYPE_CHECKING:
    from regard.config import Training


RESTART_PATIENCE = 60.0
"""Seconds a restarted run waits for the lock, which a process on another machine may not have given back yet."""


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
    """Trains a model in a run's folder: checkpoints/ meanwhile, model/ at the end."""

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
        better: Mapping[str, Better] | None = None,
        report: Listener | None = None,
        ranks: Ranks | None = None,
        fine_tuning: bool = False,
    ) -> None:
        """`model_files` turns weights into the files of a model folder; it must keep them unrounded.

        `better` says of each score that `validate` gives whether higher or lower is better.
        With `fine_tuning` the model is also validated before the first step, and compared with the result.
        All ranks make their trainer with the same arguments, except device and report.
        """
        self.settings = settings = with_defaults(settings)
        self.folder, self.stream = Path(folder), stream
        self.report = report or Quiet()
        self.ranks = ranks = ranks or Ranks()
        self.device = ranks.device(settings.device)
        ranks.connect(self.device)
        precision = mixed_precision(settings.precision, self.device)
        strategy = choose_strategy(model, settings, ranks, self.device, precision, stream)
        self.placement = strategy.placement
        stream.share(ranks.rank, ranks.size, settings.accumulate)
        self.interruption = Interruption(strategy.signal_echo)
        ranks.asked_to_stop = lambda: self.interruption.requested
        self.state = TrainingState(seed, settings.batch_tokens, stream.cursor())
        self.step = Step(strategy, settings, self.state, self.interruption, self.report, self._note)
        self.validator = Validator(
            validate, better or {}, settings, self.state, self.placement, ranks, self.interruption, self.report
        )
        self.checkpoints = Checkpoints(self.folder, settings.keep, settings.average, warn=self.report.note)
        self.saver = Saver(self.checkpoints, model_files, self.placement, self.step, self.state, stream, ranks)
        self.loop = Loop(
            self.step, self.validator, self.saver, stream, ranks, self.interruption, self.report, fine_tuning
        )
        self._lock: Lock | None = None

    @property
    def model(self) -> nn.Module:
        """The whole model; after `fit`, the one that was written."""
        return self.placement.model

    @property
    def weights(self) -> dict[str, Tensor]:
        return self.placement.whole

    def use_cuda_graphs(self) -> None:
        """From now on steps are captured and replayed as CUDA graphs, where the strategy can do that."""
        self.step.strategy = self.step.strategy.with_cuda_graphs(self.report.note)

    def resume(self) -> int:
        """Continues from the newest valid checkpoint, or starts if nothing was saved yet. Returns the current step."""
        with self._release_on_error():
            folders: list[Folder] = []

            def newest() -> tuple[str, int, bool] | None:
                self._take_lock()
                if found := self.checkpoints.newest_valid():
                    folders.append(found[1])
                return (found[0].path.name, found[0].step, found[0].regular) if found else None

            found = self.ranks.first(newest)
            if found is None:
                self._note(f"{self.folder} holds no checkpoint yet: starting at step 0")
                return 0
            name, step, regular = found
            self.saver.restore(folders[0] if folders else read_folder(self.checkpoints.folder / name))
            self.saver.saved = step if regular else -1
            self._note(f"going on from step {step}")
            return self.state.step

    def fit(self) -> Result:
        """Trains until the steps, the time or the patience is used up, or a signal comes; leaves everything saved."""
        with self._release_on_error(), self.interruption, contextlib.closing(self.report):
            self.ranks.first(self._open)
            self.saver.restore_random()
            self.report.start(self.state.step, self.settings.steps)
            try:
                reason = self.loop.run()
                scores = self.ranks.first(
                    lambda: write_final_model(self.folder / "model", self.saver, self.validator, self.report)
                )
                if scores is None:
                    raise Interrupted
                if line := self.validator.compared_with_start(scores):
                    self._note(line)
                return self._result(reason, scores, self.folder / "model")
            except Interrupted:
                if self.saver.saved != self.state.step:
                    self.saver.save(interrupted=True)
                self._note(f"interrupted and saved at step {self.state.step}; resume to go on")
                return self._result("interrupted")
            finally:
                self._release()

    def _result(self, reason: str, scores: dict[str, float] | None = None, model: Path | None = None) -> Result:
        return Result(self.state.step, reason, self.state.best_step, scores or self.state.best_scores, model)

    def _note(self, text: str) -> None:
        """Reports once what happened to all ranks."""
        if self.ranks.is_first:
            self.report.note(text)

    def _open(self) -> None:
        """Locks the run's folder and removes what a killed run left half-written."""
        self._take_lock()
        if self.saver.random is None and self.checkpoints.all():
            raise UserError(f"{self.folder} already holds a run; resume it or choose another folder")
        clean_leftovers(self.folder)
        clean_leftovers(self.checkpoints.folder)

    def _take_lock(self) -> None:
        if self._lock is None:
            self._lock = Lock(self.folder, RESTART_PATIENCE) if restarts()[0] else Lock(self.folder)

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
