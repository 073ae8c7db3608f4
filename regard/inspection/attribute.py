"""Attribution: `regard.attribute` says which inputs made a model's output likely."""

from __future__ import annotations

from typing import Any

from regard.inspection.inspect import inspect
from regard.inspection.trace.attribution import Attribution
from regard.inspection.trace.base import Choice


def attribute(
    model: Any,
    given: Any,
    *,
    method: str = "occlusion",
    position: int | None = None,
    contrast: str = "",
    tokens: bool = False,
    device: str = "auto",
    **options: Any,
) -> Attribution:
    """Explains a model's output by its inputs: the source, and the words written before.

    Args:
        model: A loaded model, or the name or path of one.
        given: A text, or an image or recording (a path, bytes or values).
        method: "input_x_gradient", "integrated_gradients", "occlusion", "value_zeroing" or "rollout".
        position: The index of one output token, from 0; None: all of them (of a language model, the next token).
        contrast: Another candidate for the output at `position`: explains why the output and not this one.
        tokens: Values of the model's tokens, not of words.
        device: "auto", "cpu", "cuda" or "cuda:1".
        options: Those of `regard.inspect`.

    Returns:
        The values, their rows (outputs) and columns (inputs), and the share of the source in each row. A notebook shows
        it as a picture; `svg()`, `figure()`, `html()` and `json()` export it.
    """
    trace = inspect(model, given, device=device, **options)
    return trace.attribution_of(Choice(method=method, position=position, contrast=contrast, tokens=tokens))
