"""The scores that validation of each task can give: what `training.metric` may name.

Some depend on the data: `nll_per_step` is of music, `percent` of series that are never 0.
"""

from __future__ import annotations

SCORES: dict[str, tuple[str, ...]] = {
    "translate": ("bleu", "chrf", "loss"),
    "classify": ("accuracy", "f1", "loss"),
    "tag": ("f1", "precision", "recall", "accuracy", "loss"),
    "fill": ("loss", "accuracy"),
    "generate": ("loss", "perplexity", "nll_per_step", "loss_per_character"),
    "forecast": ("mse", "mae", "naive_mse", "naive_mae", "mase", "mae_in_units", "percent", "coverage"),
    "caption": ("bleu4", "loss"),
    "transcribe": ("wer", "wrong", "loss"),
    "track": ("error", "copy_error", "loss"),
}
