"""A picture as a model sees it: what it says of it, and where it looked.

Without a picture the answer lists samples to try. What is asked for with a `view` is drawn, else it is told in numbers:
the weights of one layer, for the page to lay over the picture itself.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from pydantic import Field

from regard.errors import UserError
from regard.serving.workers.tasks._request import TaskRequest

if TYPE_CHECKING:
    from regard.inspection.trace.image import CaptionLook, PictureLook

__all__ = ["Request", "answer"]

MOST_CHARACTERS = 900_000
"""Of a picture's file in base64: what fits into a body of JSON. The page shrinks what is larger."""
MOST_PLACES = 256
"""Of a picture. What is told grows with their square."""
KEPT = 8

_looks: OrderedDict[tuple[Any, ...], Any] = OrderedDict()


class Request(TaskRequest):
    sample: str | None = Field(None, max_length=40, description="The name of a picture that the package draws.")
    picture: str | None = Field(None, max_length=MOST_CHARACTERS, description="A picture's file, in base64.")
    view: str = Field("", max_length=30, description="The view to draw; without it numbers are told.")
    only: int | None = Field(None, ge=0, le=100, description="Which of the view's pictures is drawn; else all are.")
    layer: int | None = Field(None, ge=0, le=1000)
    head: int | None = Field(None, ge=0, le=1000)
    position: int | None = Field(
        None, ge=0, le=10_000, description="Who looks: 0 is the class token, where there is one."
    )
    tokens: bool = False
    beam: int | None = Field(None, ge=1, le=16)


def answer(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    asked = Request(**request)
    if getattr(model.pair.input, "kind", "") != "image" or not hasattr(model, "inspect"):
        raise UserError("this model does not look at pictures; choose another")
    if asked.sample is None and asked.picture is None:
        return _samples(model)
    seen = _look(model, asked)
    return _drawn(seen, asked) if asked.view else _told(seen, asked)


def _samples(model: Any) -> dict[str, Any]:
    """Those that are like what the model was trained on: in colour, or grey."""
    from regard.data.samples import clothes, shapes

    given = shapes() if model.pair.input.channels == 3 else clothes()
    listed = [{"name": name, "png": _address(content)} for name, content in given.items()]
    return {"samples": listed, "size": model.pair.input.size, "colour": model.pair.input.channels == 3}


def _content(asked: Request) -> tuple[bytes, str]:
    """The file's bytes, and what it is called."""
    if asked.picture is not None:
        try:
            return base64.b64decode(asked.picture, validate=True), ""
        except binascii.Error:
            raise UserError("picture: is not base64; send a file's bytes so") from None
    from regard.data.samples import samples

    known = samples()
    if asked.sample not in known:
        raise UserError(f"there is no sample '{asked.sample}'; the samples are {', '.join(known)}")
    return known[asked.sample], asked.sample


def _look(model: Any, asked: Request) -> PictureLook | CaptionLook:
    content, called = _content(asked)
    key = (id(model), asked.model, hashlib.sha256(content).digest(), asked.beam)
    if key not in _looks:
        searched = {} if asked.beam is None or model.recipe.task == "classify" else {"beam": asked.beam}
        seen = model.inspect(content, name=asked.model, **searched)
        if called:
            seen.scene.name = called
        if (count := len(seen.scene.places)) > MOST_PLACES:
            raise UserError(f"this model sees {count} places; the studio shows {MOST_PLACES}: use regard inspect")
        _looks[key] = seen
        while len(_looks) > KEPT:
            _looks.popitem(last=False)
    _looks.move_to_end(key)
    return _looks[key]


def _drawn(seen: PictureLook | CaptionLook, asked: Request) -> dict[str, Any]:
    choice = {"layer": asked.layer, "head": asked.head, "position": asked.position, "tokens": asked.tokens}
    view = seen.view(asked.view, **choice)
    wanted = view.pictures if asked.only is None else view.pictures[asked.only : asked.only + 1]
    return {
        "view": view.name,
        "about": view.about,
        "pictures": [{"heading": one.heading, "svg": one.svg()} for one in wanted],
    }


def _told(seen: PictureLook | CaptionLook, asked: Request) -> dict[str, Any]:
    from regard.inspection.trace.base import CROSS, READING, plain
    from regard.inspection.trace.image import PictureLook
    from regard.inspection.trace.translation import among

    found = seen.tree(())
    found["views"] = _views(seen)
    layers = seen.of_kind(READING if isinstance(seen, PictureLook) else CROSS)
    found["layers"], found["heads"] = len(layers), len(layers[0].weights) if layers else 0
    if not layers:
        return found
    if isinstance(seen, PictureLook):
        layer = len(layers) - 1 if asked.layer is None else among(asked.layer, len(layers), "layer")
        weights = layers[layer].weights
        found |= {"layer": layer, "weights": plain(weights), "mean": plain(weights.mean(0))}
        found["rollout"] = plain(seen.rollout()[layer])
    else:
        found["words"] = plain(seen.word_matrix(asked.layer, asked.head))
        found["tokens"] = plain(seen.token_matrix(asked.layer, asked.head))
        found["sure"] = plain(seen.word_probabilities())
    return found


def _views(seen: PictureLook | CaptionLook) -> list[str]:
    """Those for which this model has something."""
    found = []
    for name in seen.views():
        try:
            if name != "numbers" or not seen.attention:  # these take a pass: not before somebody wants them
                seen.view(name)
        except UserError:
            continue
        found.append(name)
    return found


def _address(content: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(content).decode()
