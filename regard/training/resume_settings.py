"""Which settings may change when a run is resumed: all others define its model, its data or their order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from regard.config import Recipe, parse_toml, to_toml
from regard.errors import UserError

CHANGEABLE = {
    "name",
    "source_language",
    "target_language",
    "data.root",
    "data.workers",
    "data.valid_limit",
    "training.steps",
    "training.minutes",
    "training.accumulate",
    "training.shard",
    "training.learning_rate",
    "training.schedule",
    "training.warmup",
    "training.beta1",
    "training.beta2",
    "training.epsilon",
    "training.weight_decay",
    "training.clip",
    "training.label_smoothing",
    "training.precision",
    "training.compile",
    "training.average",
    "training.validate_every",
    "training.save_every",
    "training.log_every",
    "training.keep",
    "training.metric",
    "training.patience",
    "training.bad_steps",
    "training.device",
    "training.samples",
}
PATHS = tuple(
    f"data.{key}" for key in ("source", "target", "valid_source", "valid_target", "hold_out", "train", "valid", "test")
)
"""May name copies elsewhere: fingerprints compare the content of the files."""
_ENTRY_PATH = re.compile(r"data\.pairs\.\d+\.(source|target|valid_source|valid_target)")
SECTIONS = ("decoding.", "tiny.", "training.schedule.")


def refuse_fixed_changes(place: Path, started: Recipe, wanted: Recipe) -> None:
    """Refuses a setting that differs from what the run in `place` was started with and cannot change."""
    was, now = (dict(_flat(parse_toml(to_toml(recipe)))) for recipe in (started, wanted))
    for key in (key for key in {**was, **now} if was.get(key) != now.get(key)):
        if (
            key not in CHANGEABLE
            and key not in PATHS
            and not _ENTRY_PATH.fullmatch(key)
            and not key.startswith(SECTIONS)
        ):
            before = f"was {was[key]!r}" if key in was else "was not set"
            raise UserError(
                f"{key} {before} when {place} was begun, not {now.get(key)!r}; a resumed run keeps it: leave it as it "
                "was, or train a new run"
            )


def _flat(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{key}.")
        elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            yield from _flat({str(number): item for number, item in enumerate(value, 1)}, f"{above}{key}.")
        else:
            yield f"{above}{key}", value
