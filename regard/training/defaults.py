"""Defaults that follow from the length and kind of a training, and warnings about settings that rarely make sense."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from regard.types import BatchStream

if TYPE_CHECKING:
    from regard.config import Training

LEARNING_RATE, FINE_TUNING_RATE = 1e-3, 1e-4
WARMUP, FINE_TUNING_WARMUP = 1000, 100
"""Longest automatic warm-up; it is never more than a tenth of the steps."""
MANY_EPOCHS = 1000
"""Passes over the training data after which a model has certainly memorised them."""


def with_defaults(settings: Training, fine_tuning: bool = False) -> Training:
    """The settings with automatic values (a negative warm-up, a learning rate of 0) replaced by numbers."""
    longest = FINE_TUNING_WARMUP if fine_tuning else WARMUP
    return replace(
        settings,
        warmup=min(longest, settings.steps // 10) if settings.warmup < 0 else settings.warmup,
        learning_rate=settings.learning_rate or (FINE_TUNING_RATE if fine_tuning else LEARNING_RATE),
    )


def warnings(settings: Training, stream: BatchStream) -> list[str]:
    """One line for each setting that will probably waste the training."""
    found, steps = [], settings.steps
    if settings.warmup >= steps > 1:
        found.append(
            f"warning: training.warmup={settings.warmup} is not shorter than the training of {steps:,} steps, so the "
            f"learning rate never reaches its peak; leave it out (then it is {min(WARMUP, steps // 10)})"
        )
    batches = stream.batches_per_epoch()
    epochs = steps * settings.accumulate / batches if batches else 0
    if epochs > MANY_EPOCHS and not settings.patience and not settings.minutes:
        found.append(
            f"warning: {steps:,} steps are {epochs:,.0f} passes over so little training data, which the model will "
            f"memorise; set training.steps={max(1, round(100 * batches / settings.accumulate))} (about 100 passes) "
            "or training.patience=5, or add data"
        )
    return found
