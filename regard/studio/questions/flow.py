"""What flows through a model's map for one input: tokens in, tokens out, and the weights of every head.

The page draws the blocks from the recipe (`/studio/map/NAME`) at once, and fills these numbers in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from regard.studio.questions._trace_cache import TextRequest, cached_trace

if TYPE_CHECKING:
    import numpy as np

    from regard.inspection.trace.base import Attention, Trace

__all__ = ["Request", "answer"]

MOST = 24
"""Queries and keys of a head whose weights are told; of longer texts, those of the first."""
UNITS = 24
"""Units of a recurrent layer whose state is told."""


class Request(TextRequest):
    text: str = Field("", max_length=10_000)
    sample: str | None = Field(
        None, max_length=40, description="The name of a sample image, for a model that reads images."
    )
    block: str | None = Field(
        None,
        max_length=200,
        description="The attention that is looked at: of a large model, the only one told in full.",
    )


def answer(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    """The tokens of both sides, the probability of each output, and what the layers computed, by their modules."""
    from regard.inspection.trace.base import SOURCE, TARGET
    from regard.inspection.trace.image import SceneTrace

    trace: Trace
    if request.get("sample"):
        from regard.studio.questions import inspect_image

        wanted = inspect_image.Request.model_validate({"model": request["model"], "sample": request["sample"]})
        trace = inspect_image.trace_of(model, wanted)
    else:
        trace = cached_trace(model, request)
    source, target = list(trace.tokens(SOURCE)), list(trace.tokens(TARGET))
    return {
        "texts": [{"text": side.text, "direction": side.direction} for side in trace.texts()],
        "counts": {SOURCE: len(source), TARGET: len(target)},
        "tokens": {SOURCE: [] if isinstance(trace, SceneTrace) else source, TARGET: target},
        "outputs": _outputs(trace),
        "attention": _all_attention(trace, request.get("block") or ""),
        "gates": [
            {"path": one.path, "tokens": list(trace.tokens(one.side))[:MOST], "states": _rounded(_state(one.values))}
            for one in trace.gates
        ],
        "ponder": [{"path": one.path, "times": _rounded(one.times)} for one in trace.ponder],
    }


def _outputs(trace: Trace) -> list[dict[str, Any]]:
    """What the model says: each token with its probability, or the likeliest labels or next tokens."""
    from regard.inspection.trace.image import CaptionTrace, ImageTrace
    from regard.inspection.trace.text import LanguageModelTrace, TextTrace
    from regard.inspection.trace.translation import TranslationTrace

    pairs: list[tuple[str, float]] = []
    if isinstance(trace, TranslationTrace | CaptionTrace):
        pairs = list(zip(trace.target.tokens, trace.probabilities))
    elif isinstance(trace, LanguageModelTrace):
        pairs = [(one.token, one.probability) for one in trace.next.tokens[:5]]
    elif isinstance(trace, ImageTrace):
        pairs = sorted(trace.probabilities.items(), key=lambda one: -one[1])[:5]
    elif isinstance(trace, TextTrace) and len(trace.guesses) == 1:
        pairs = [(one.token, one.probability) for one in trace.guesses[0].others[:5]]
    elif isinstance(trace, TextTrace):
        pairs = [(one.given, one.probability) for one in trace.guesses]
    return [{"token": token, "probability": round(float(probability), 4)} for token, probability in pairs]


def _all_attention(trace: Trace, block: str) -> list[dict[str, Any]]:
    """Of a model with hundreds of heads, small pictures of them, and the numbers of one layer."""
    from regard.inspection.draw.head_grid import FEW, coarse, is_large

    large = is_large(len(layer.weights) for layer in trace.attention)
    told = []
    for layer in trace.attention:
        one = _attention(trace, layer)
        if large and layer.path != block and not one.get("places"):
            pooled = [_rounded(coarse(head[:MOST, :MOST], FEW), 2) for head in layer.weights]
            one |= {"weights": pooled, "keys": [], "queries": [], "pooled": True}
        told.append(one)
    return told


def _attention(trace: Trace, layer: Attention) -> dict[str, Any]:
    """The weights of a layer, (heads, queries, keys). Of an image: where each head looks, (heads, rows, columns)."""
    from regard.inspection.trace.base import CROSS, SOURCE
    from regard.inspection.trace.image import SceneTrace

    told: dict[str, Any] = {"path": layer.path, "kind": layer.kind, "layer": layer.layer}
    if isinstance(trace, SceneTrace) and layer.kind in (SOURCE, CROSS):
        scene = trace.scene
        rows = layer.weights[:, 0] if layer.kind == SOURCE and scene.before else layer.weights.mean(1)
        return told | {"places": True, "weights": _rounded(scene.of_places(rows))}
    keys, queries = list(trace.keys(layer.kind)), list(trace.queries(layer.kind))
    shown = layer.weights[:, :MOST, :MOST]
    return told | {"keys": keys[:MOST], "queries": queries[:MOST], "weights": _rounded(shown)}


def _state(values: dict[str, np.ndarray]) -> np.ndarray:
    """The hidden state at each token, (units, tokens)."""
    last = values.get("hidden", list(values.values())[-1])
    return last[:MOST, :UNITS].T


def _rounded(values: np.ndarray, digits: int = 3) -> Any:
    import numpy as np

    return np.nan_to_num(np.round(values.astype(float), digits)).tolist()
