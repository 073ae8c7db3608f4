"""The views of each kind of trace, by name. A view that a model has nothing for says so when it is drawn."""

from __future__ import annotations

from collections.abc import Mapping

from regard.inspection.draw.view import DrawView
from regard.inspection.draw.views import common, image, text, translation
from regard.inspection.trace.base import Trace
from regard.inspection.trace.image import CaptionTrace, ImageTrace
from regard.inspection.trace.text import LanguageModelTrace, TextTrace
from regard.inspection.trace.translation import TranslationTrace

_TEXT: dict[str, DrawView] = {
    "map": common.model_map,
    "heads": text.heads,
    "numbers": common.numbers,
    "positions": common.positions,
    "gates": common.gates,
    "gradients": common.gradients,
    "ponder": common.ponder,
    "why": common.why,
}

VIEWS: dict[type[Trace], dict[str, DrawView]] = {
    TranslationTrace: {
        "alignment": translation.alignment,
        "map": common.model_map,
        "heads": common.heads,
        "steps": translation.steps,
        "numbers": common.numbers,
        "positions": common.positions,
        "beam": common.beam,
        "gates": common.gates,
        "gradients": common.gradients,
        "ponder": common.ponder,
        "what-if": translation.what_if,
        "near": translation.near,
        "logit-lens": common.logit_lens,
        "why": common.why,
    },
    TextTrace: {"answer": text.answer, **_TEXT},
    LanguageModelTrace: {"next": text.next_token, **_TEXT, "logit-lens": common.logit_lens},
    ImageTrace: {
        "patches": image.class_patches,
        "map": common.model_map,
        "heads": image.heads,
        "numbers": common.numbers,
        "positions": image.positions,
        "gates": common.gates,
        "ponder": common.ponder,
        "why": image.why,
    },
    CaptionTrace: {
        "patches": image.caption_patches,
        "map": common.model_map,
        "heads": image.heads,
        "numbers": common.numbers,
        "positions": image.positions,
        "beam": common.beam,
        "gates": common.gates,
        "ponder": common.ponder,
        "why": image.why,
    },
}


def views_of(trace: Trace) -> Mapping[str, DrawView]:
    """The views of a trace: those of its class, or of the nearest base class that has any."""
    return next((VIEWS[kind] for kind in type(trace).__mro__ if kind in VIEWS), {})
