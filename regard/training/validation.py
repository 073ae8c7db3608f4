"""Validation during training: scores, the best one so far, and what fine-tuning changed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch
from torch import nn

from regard.errors import UserError, suggestion
from regard.training.interruption import Interrupted, Interruption
from regard.training.listener import Listener
from regard.training.placement import Placement
from regard.training.ranks import Ranks
from regard.training.state import TrainingState
from regard.types import Better, Validation

if TYPE_CHECKING:
    from regard.config import Training


class Validator:
    """Validates on rank 0 and keeps the best scores in the training state."""

    def __init__(
        self,
        validate: Callable[[nn.Module], Validation] | None,
        better: Mapping[str, Better],
        settings: Training,
        state: TrainingState,
        placement: Placement,
        ranks: Ranks,
        interruption: Interruption,
        report: Listener,
    ) -> None:
        """`better`: for each score whether higher or lower is better."""
        self.validate, self.better = validate, better
        self.settings, self.state, self.placement = settings, state, placement
        self.ranks, self.interruption, self.report = ranks, interruption, report

    def due(self, ending: bool) -> bool:
        """Whether the current step is to be validated: at intervals and at the end."""
        if self.validate is None or self.state.validated == self.state.step:
            return False
        return ending or self.state.every(self.settings.validate_every)

    def improved(self, averages: Mapping[str, torch.Tensor]) -> bool:
        """Validates the current weights; True if the scores are the best so far. All ranks must call it."""
        validation, state = self._on_rank_0(averages), self.state
        state.validated = state.step
        improved = self.is_better(validation.scores)
        if improved:
            state.best_score = validation.scores[self.metric(validation.scores)]
            state.best_step, state.best_scores = state.step, dict(validation.scores)
        state.waited = 0 if improved else state.waited + 1
        self.report.validated(state.step, validation)
        return improved

    def score_start(self, averages: Mapping[str, torch.Tensor]) -> None:
        """Scores the model that fine-tuning starts from, once."""
        if self.validate and self.state.step == 0 and not self.state.start_scores:
            validation = self._on_rank_0(averages)
            self.state.start_scores = dict(validation.scores)
            self.report.validated(0, validation)

    def compared_with_start(self, scores: dict[str, float]) -> str:
        """One line on what fine-tuning changed on held-out text; empty if its start was not scored."""
        before = self.state.start_scores
        if not before or not scores:
            return ""
        metric = self.metric(scores)
        change = f"{metric} {before[metric]:.4g} before fine-tuning, {scores[metric]:.4g} after"
        if self._beats(metric, before[metric], scores[metric]):
            return (
                f"warning: fine-tuning made held-out text worse: {change}; try fewer training.steps, a lower "
                f"training.learning_rate than {self.settings.learning_rate:g}, or more data"
            )
        return f"held-out text: {change}"

    def run(self) -> Validation | None:
        """Validates the whole model as it is, on rank 0; mode and random states stay as they were. None when a signal
        ended it."""
        assert self.validate is not None
        device = self.placement.device
        try:
            with (
                self.placement.evaluating() as model,
                self.interruption.breakable(),
                torch.random.fork_rng([device] if device.type == "cuda" else []),
                torch.no_grad(),
            ):
                validation = self.validate(model)
        except Interrupted:
            return None
        self.metric(validation.scores)
        return validation

    def metric(self, scores: Mapping[str, float]) -> str:
        """The score that decides which checkpoint is best: `training.metric`, or the first one."""
        name = self.settings.metric or next(iter(scores))
        if name not in scores:
            raise UserError(f"training.metric: validation gives no '{name}'{suggestion(name, scores)}")
        if name not in self.better:
            raise ValueError(f"validation gives '{name}', but its task does not declare in `scores` which is better")
        return name

    def is_better(self, scores: Mapping[str, float]) -> bool:
        """Whether scores are better than the best so far."""
        metric, best = self.metric(scores), self.state.best_score
        if not math.isfinite(scores[metric]):
            return False
        return best is None or self._beats(metric, scores[metric], best)

    def _beats(self, metric: str, one: float, other: float) -> bool:
        return one < other if self.better[metric] == "lower" else one > other

    def _on_rank_0(self, averages: Mapping[str, torch.Tensor]) -> Validation:
        """Rank 0's validation of the current weights; the other ranks get the scores alone."""
        validations: list[Validation] = []

        def scores() -> dict[str, float] | None:
            if validation := self.run():
                validations.append(validation)
            return validation.scores if validation else None

        with self.placement.averaged(averages):
            found = self.ranks.first(scores)
        if found is None:
            raise Interrupted
        return validations[0] if validations else Validation(found)
