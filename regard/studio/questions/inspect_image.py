"""Classify or describe an image, with the attention over its patches.

Without an image the answer lists samples to try. With a `view` the answer is its pictures; without one it is numbers:
the weights of one layer, which the page draws over the image itself.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import Field

from regard.errors import UserError
from regard.serving.workers.tasks._input import check_cancelled
from regard.serving.workers.tasks._request import TaskRequest

if TYPE_CHECKING:
    from regard.inspection.trace.base import Trace
    from regard.inspection.trace.image import CaptionTrace, ImageTrace

__all__ = ["Request", "answer"]

MOST_CHARACTERS = 900_000
"""Of an image file in base64: what fits into a JSON body. The page shrinks larger images."""
MOST_PLACES = 256
"""The answer grows with the square of the number of places."""
CACHED = 8
METHOD, QUICK = "occlusion", "input_x_gradient"
"""Methods of attribution that are used unless another is chosen: the second where the first would take minutes."""
MOST_OCCLUDED = 100
"""Places up to which one forward pass for each is quick."""

_traces: OrderedDict[tuple[Any, ...], Any] = OrderedDict()


class Request(TaskRequest):
    sample: str | None = Field(None, max_length=40, description="The name of a sample image.")
    picture: str | None = Field(None, max_length=MOST_CHARACTERS, description="An image file, in base64.")
    view: str = Field("", max_length=30, description="The view to draw; without it the answer is numbers.")
    only: int | None = Field(None, ge=0, le=100, description="Draw only this picture of the view.")
    layer: int | None = Field(None, ge=0, le=1000)
    head: int | None = Field(None, ge=0, le=1000)
    position: int | None = Field(
        None, ge=0, le=10_000, description="The index of the query: 0 is the class token, where there is one."
    )
    tokens: bool = False
    beam: int | None = Field(None, ge=1, le=16)


def answer(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    from regard.inspection.inspect import Inspectable
    from regard.task._examples import ExampleTask

    question = Request(**request)
    reads_images = isinstance(model, ExampleTask) and model.pair.input.kind == "image"
    if not reads_images or not isinstance(model, Inspectable):
        raise UserError("this model does not read images; choose another model")
    if question.sample is None and question.picture is None:
        return _samples(model)
    trace = trace_of(model, question)
    return pictures_of(trace, question) if question.view else numbers_of(trace, question)


def _samples(model: Any) -> dict[str, Any]:
    """Sample images like those that the model was trained on: colour or grey."""
    from regard.data.samples import clothes, shapes

    samples = shapes() if model.pair.input.channels == 3 else clothes()
    listed = [{"name": name, "png": _data_url(content)} for name, content in samples.items()]
    return {"samples": listed, "size": model.pair.input.size, "colour": model.pair.input.channels == 3}


def _image(question: Request) -> tuple[bytes, str]:
    """The file's bytes, and its name."""
    if question.picture is not None:
        try:
            return base64.b64decode(question.picture, validate=True), ""
        except binascii.Error:
            raise UserError("picture: is not valid base64; encode the bytes of an image file") from None
    from regard.data.samples import samples

    known = samples()
    if question.sample not in known:
        raise UserError(f"there is no sample '{question.sample}'; the samples are {', '.join(known)}")
    return known[question.sample], question.sample


def trace_of(model: Any, question: Request) -> ImageTrace | CaptionTrace:
    """The trace of the image, computed once."""
    content, name = _image(question)
    key = (id(model), question.model, hashlib.sha256(content).digest(), question.beam)
    if key not in _traces:
        options = {} if question.beam is None or model.recipe.task == "classify" else {"beam": question.beam}
        trace = model.inspect(content, name=question.model, **options)
        if name:
            trace.scene.name = name
        if (count := len(trace.scene.places)) > MOST_PLACES:
            raise UserError(
                f"this model cuts an image into {count} places; the studio shows at most {MOST_PLACES}: "
                "use regard inspect"
            )
        _traces[key] = trace
        while len(_traces) > CACHED:
            _traces.popitem(last=False)
    _traces.move_to_end(key)
    return _traces[key]


class Shown(Protocol):
    """What a question asks to see of a trace."""

    view: str
    only: int | None
    layer: int | None
    head: int | None
    position: int | None
    tokens: bool


def usual_method(trace: Trace) -> str:
    from regard.inspection.trace.image import SceneTrace

    return QUICK if isinstance(trace, SceneTrace) and len(trace.scene.places) > MOST_OCCLUDED else METHOD


def pictures_of(trace: ImageTrace | CaptionTrace, question: Shown) -> dict[str, Any]:
    from regard.inspection.record.attribution._progress import on_progress

    choice = {name: getattr(question, name) for name in ("layer", "head", "position", "tokens")}
    if question.view == "why":
        choice["method"] = usual_method(trace)
    with on_progress(lambda done, most: check_cancelled()):
        view = trace.view(question.view, **choice)
    drawn = view.pictures if question.only is None else view.pictures[question.only : question.only + 1]
    return {
        "view": view.name,
        "about": view.about,
        "pictures": [{"heading": one.heading, "svg": one.svg()} for one in drawn],
    }


def numbers_of(trace: ImageTrace | CaptionTrace, question: Shown) -> dict[str, Any]:
    """The weights over the places that are drawn."""
    from regard.inspection.trace.base import CROSS, SOURCE, index_in, plain
    from regard.inspection.trace.image import ImageTrace

    found = trace.tree(())
    found["views"] = _views(trace)
    layers = trace.of_kind(SOURCE if isinstance(trace, ImageTrace) else CROSS)
    found["layers"], found["heads"] = len(layers), len(layers[0].weights) if layers else 0
    if not layers:
        return found
    if isinstance(trace, ImageTrace):
        layer = len(layers) - 1 if question.layer is None else index_in(question.layer, len(layers), "layer")
        weights = layers[layer].weights
        found |= {"layer": layer, "weights": plain(weights), "mean": plain(weights.mean(0))}
        found["rollout"] = plain(trace.rollout()[layer])
    else:
        on_places = trace.scene.on_places
        found["words"] = plain(on_places(trace.word_matrix(question.layer, question.head)))
        found["tokens"] = plain(on_places(trace.token_matrix(question.layer, question.head)))
        found["sure"] = plain(trace.word_probabilities())
    return found


def _views(trace: ImageTrace | CaptionTrace) -> list[str]:
    """The views that this model has something for."""
    found = []
    on_request = {"numbers"} if trace.attention else set()  # they need further forward passes
    on_request |= {"why"} if trace.compute_attribution else set()
    for name in trace.views():
        if name == "why" and len(trace.scene.tokens) > MOST_PLACES:
            continue  # as many forward passes
        try:
            if name not in on_request:
                trace.view(name)
        except UserError:
            continue
        found.append(name)
    return found


def _data_url(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode()
