"""The direction of a question to a translator with several: what the page chose, or the language that is detected."""

from __future__ import annotations

from typing import Any

from regard.languages import internal
from regard.serving.catalogue import ServedModel
from regard.serving.text.language_detection import detect

AUTO = "auto"


def with_direction(model: ServedModel, fields: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The fields of a question with the languages that the model is told, and what the page is told about them.

    A model with one direction is told nothing, whatever was chosen for the one before it.
    """
    source, target = internal(fields.get("source") or AUTO), internal(fields.get("target") or "")
    fields = {key: value for key, value in fields.items() if key not in ("source", "target")}
    if not model.multilingual:
        return fields, None
    detected = source == AUTO
    if detected:
        able = [code for code, targets in model.directions.items() if not target or target in targets]
        best = detect(str(fields.get("text", "")), able)[0][0] if len(able) > 1 else ""
        source = best if best in able else next(iter(able), "")
    step = model.step(source, target)
    languages = {"source": step.source, "target": step.target}
    return fields | languages, languages | {"detected": detected}
