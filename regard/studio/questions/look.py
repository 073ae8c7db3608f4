"""A sentence translated, and where the model looked: what the studio's first page shows while it is typed.

A text that is translated in several parts is answered with all of them, and one of them is looked at. Weights are of
one layer and head, or the mean of all, so that an answer stays small: another head of the sentence costs no search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pydantic import Field

from regard.studio.questions._kept import MOST_CHARACTERS, AskedOfText, timed_look_of

if TYPE_CHECKING:
    from regard.inspection.trace.translation import Look
    from regard.task.translate import Translator

__all__ = ["Request", "answer"]


class Request(AskedOfText):
    part: int = Field(0, ge=0, le=MOST_CHARACTERS, description="Which of the text's parts is looked at, from 0.")
    layer: int | None = Field(None, ge=0, le=1000, description="The attention of this layer, from 0; else of all.")
    head: int | None = Field(None, ge=0, le=1000, description="The attention of this head, from 0; else of all.")


def answer(model: Translator, request: dict[str, Any]) -> dict[str, Any]:
    asked = Request(**request)
    parts = model.parts(asked.text) or [""]  # what is empty is refused as any other view does
    part = min(asked.part, len(parts) - 1)
    seen, seconds = timed_look_of(model, {**request, "text": parts[part]})
    return {
        "parts": parts,
        "part": part,
        "seconds": round(seconds, 4),
        **_told(cast("Look", seen), asked.layer, asked.head),
    }


def _told(seen: Look, layer: int | None, head: int | None) -> dict[str, Any]:
    """Both sides, how sure the model was of each token and word, what else it found, and where it looked."""
    from regard.inspection.trace.base import CROSS, plain

    found = seen.tree(())
    found["attention"] = found["weights"] = None
    found["probabilities"] = {"tokens": found["probabilities"], "words": plain(seen.word_probabilities())}
    if cross := seen.of_kind(CROSS):
        layers, heads = len(cross), len(cross[0].weights)
        # Another model may have fewer of them than the one they were chosen for.
        layer, head = (
            one if one is not None and one < count else None for one, count in ((layer, layers), (head, heads))
        )
        found["attention"] = {"layers": layers, "heads": heads, "layer": layer, "head": head}
        found["weights"] = {
            "tokens": plain(seen.token_matrix(layer, head)),
            "words": plain(seen.word_matrix(layer, head)),
        }
    return found
