"""Look inside a model while it does its work: what the command line and Python call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.assemble import load
from regard.inspection.look import Look
from regard.task.translate import Translator


def inspect(model: str | Path | Translator, text: str, *, device: str = "auto", **search: Any) -> Look:
    """What a translator did with one sentence: a model by name or path, or one that was loaded.

    `search` may hold `beam`, `length_penalty` and `max_length`, as for translating. In a notebook what comes back draws
    itself; `svg()`, `figure()`, `html()` and `json()` give it away.
    """
    if isinstance(model, Translator):
        return model.inspect(text, **search)
    return load(model, device=device, task="translate").inspect(text, name=Path(model).name, **search)
