"""RUN/model, the result of a run: the mean of the best checkpoint and those before it, or the best alone."""

from __future__ import annotations

import math
from pathlib import Path

from regard.errors import UserError
from regard.storage import Folder, read_folder, write_folder
from regard.training.checkpoints import Checkpoints, average
from regard.training.listener import Listener
from regard.training.placement import copy_weights
from regard.training.saving import Saver
from regard.training.validation import Validator


def write_final_model(path: Path, saver: Saver, validator: Validator, report: Listener) -> dict[str, float] | None:
    """Writes the average, unless the best checkpoint alone is better. Rank 0 only.

    Returns the scores of what was written; None when a signal came first.
    """
    whole, state = saver.placement.whole, saver.state
    folders = _readable(saver.checkpoints, report)
    if not folders:
        raise UserError(f"{saver.checkpoints.folder}: no whole checkpoint is left to make a model of")
    copy_weights(whole, average(folders))
    scores = state.best_scores
    if validator.validate and len(folders) > 1:
        validation = validator.run()
        if validation is None:
            return None
        mean = validation.scores
        metric = validator.metric(mean)
        alone = state.best_scores.get(metric, math.nan)
        found = f"{len(folders)} checkpoints averaged: {metric} {mean[metric]:.4g}, the best alone: {alone:.4g}"
        if validator.is_better(mean):
            scores = mean
            report.note(f"{found}; the average is kept")
        else:
            copy_weights(whole, folders[-1].weights())
            report.note(f"{found}; the best is kept")
    write_folder(path, saver.model_files({name: tensor.detach().cpu() for name, tensor in whole.items()}))
    return scores


def _readable(checkpoints: Checkpoints, report: Listener) -> list[Folder]:
    found = []
    for saved in checkpoints.to_average():
        try:
            found.append(read_folder(saved.path))
        except UserError as error:
            report.note(f"left out of the average: {error}")
    return found
