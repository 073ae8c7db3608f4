"""Which inputs made an output likely: the attribution of a text's or an image's outputs, as numbers and as pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from regard.errors import UserError
from regard.serving.workers.tasks._input import check_cancelled
from regard.studio.questions._trace_cache import TextRequest, cached_trace
from regard.studio.questions.inspect_image import Request as ImageRequest
from regard.studio.questions.inspect_image import trace_of, usual_method

if TYPE_CHECKING:
    from regard.inspection.trace.base import Trace

__all__ = ["Request", "answer"]

SLOW = "integrated_gradients"
"""A method whose time grows with the number of outputs: it explains one at a time."""


class Request(TextRequest):
    text: str = Field("", max_length=10_000)
    sample: str | None = Field(None, max_length=40, description="The name of a sample image.")
    picture: str | None = Field(None, max_length=900_000, description="An image file, in base64.")
    method: str = Field("", max_length=40, description="A method of attribution; one that the model lacks is replaced.")
    position: int | None = Field(None, ge=0, le=100_000, description="Which output, from 0; by default all of them.")
    contrast: str = Field("", max_length=200, description="Another candidate for the output at `position`.")
    tokens: bool = False


def answer(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    """The numbers of the attribution, its pictures, and the outputs that can be chosen.

    What belongs to another text or model (a method, a position beyond the last) is replaced by the default."""
    from regard.inspection.record.attribution import methods_of
    from regard.inspection.record.attribution._progress import on_progress
    from regard.inspection.trace.base import plain
    from regard.inspection.trace.image import CaptionTrace
    from regard.inspection.trace.translation import TranslationTrace

    question = Request.model_validate(request)
    trace = _trace(model, question, request)
    outputs = _outputs(trace)
    # A translator that another engine runs has the PyTorch model, too.
    method = question.method if question.method in methods_of(model.model) else usual_method(trace)
    position = question.position if question.position is not None and question.position < len(outputs) else None
    contrast = question.contrast if method != "rollout" and (position is not None or len(outputs) == 1) else ""
    if method == SLOW and position is None and isinstance(trace, TranslationTrace | CaptionTrace):
        position = trace.probabilities.index(min(trace.probabilities))  # the least certain: there is most to explain
    options = {"method": method, "position": position, "contrast": contrast, "tokens": question.tokens}
    with on_progress(lambda done, most: check_cancelled()):
        view = trace.view("why", **options)
    (found,) = trace.attributions
    return {
        **plain(found),
        "source_shares": plain(found.source_shares) if found.has_prefix else None,
        "names": outputs,
        "contrasts": method != "rollout",
        "about": view.about,
        "pictures": [{"heading": one.heading, "svg": one.svg()} for one in view.pictures],
    }


def _trace(model: Any, question: Request, request: dict[str, Any]) -> Trace:
    if question.sample is None and question.picture is None:
        named = {name: value for name, value in request.items() if name in TextRequest.model_fields}
        return cached_trace(model, {**named, "text": question.text})
    if question.text:
        raise UserError("give either a text or an image")
    image = {name: getattr(question, name) for name in ("model", "sample", "picture")}
    return trace_of(model, ImageRequest(**image))


def _outputs(trace: Trace) -> list[str]:
    from regard.inspection.trace.image import CaptionTrace, ImageTrace

    if isinstance(trace, CaptionTrace):
        return list(trace.target.tokens)
    return [trace.label] if isinstance(trace, ImageTrace) else list(trace.outputs())
