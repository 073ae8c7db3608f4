"""Inspect a model: `regard.inspect` and `regard inspect` record a trace through the task's own `inspect`."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from regard.errors import UserError, suggestion
from regard.inspection.trace.base import Trace
from regard.loading import load


@runtime_checkable
class Inspectable(Protocol):
    """A task that can record a trace of itself. Its further keywords are the options of `regard.inspect`."""

    recipe: Any

    def inspect(self, given: Any, /, *, name: str = "") -> Trace: ...


def inspect(model: Any, given: Any, *, device: str = "auto", **options: Any) -> Trace:
    """Runs a model on one input and returns a trace of what it computed.

    Args:
        model: A loaded model, or the name or path of one.
        given: A text, or an image or recording (a path, bytes or values).
        device: "auto", "cpu", "cuda" or "cuda:1".
        options: Those of the task's own `inspect`; for a translator `beam`, `length_penalty` and `max_length`.

    Returns:
        The trace. A notebook shows it as pictures; `svg()`, `figure()`, `html()` and `json()` export it.
    """
    name = ""
    if isinstance(model, str | Path):
        name, model = Path(model).name, load(model, device=device)
    if not isinstance(model, Inspectable):
        raise UserError(f"'{name}' is for the task {model.recipe.task}, which cannot be inspected yet")
    known = signature(model.inspect).parameters
    for option in options:
        if option not in known:
            raise UserError(f"{option}: the task {model.recipe.task} has no such option{suggestion(option, known)}")
    return model.inspect(given, name=name, **options)
