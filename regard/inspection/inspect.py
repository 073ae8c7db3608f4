"""Look inside a model while it does its work: what the command line and Python call."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import Any

from regard.assemble import load
from regard.errors import UserError, suggestion
from regard.inspection.trace.base import Shown


def inspect(model: Any, given: Any, *, device: str = "auto", **how: Any) -> Shown:
    """What a model did with one input: a model by name or path, or one that was loaded; a text, or a picture's file
    (or its bytes, or its pixels).

    `how` may hold what the task's own `inspect` takes, for a translator `beam`, `length_penalty` and `max_length`. In a
    notebook what comes back draws itself; `svg()`, `figure()`, `html()` and `json()` give it away.
    """
    name = ""
    if isinstance(model, str | Path):
        name, model = Path(model).name, load(model, device=device)
    if not hasattr(model, "inspect"):
        raise UserError(f"'{name}' is for the task {model.recipe.task}, and there are no pictures of that yet")
    known = signature(model.inspect).parameters
    for option in how:
        if option not in known:
            raise UserError(f"{option}: the task {model.recipe.task} has no such option{suggestion(option, known)}")
    return model.inspect(given, name=name, **how)
