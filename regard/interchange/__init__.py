"""Exports models for other programs. A format is a file here; `regard export --format NAME` writes it."""

from __future__ import annotations

from pathlib import Path
from typing import cast

OWN = "regard"
"""The format of our own model folders."""


def export(
    model: str | Path,
    output: str | Path,
    *,
    format: str = OWN,
    precision: str = "int8",
    source_language: str = "",
    target_language: str = "",
) -> Path:
    """Writes a model into a new folder, smaller or for another program.

    Args:
        model: A shipped model, a model folder or a run.
        output: The folder to create.
        format: "regard", or a kind in the `interchange` folder, such as "ctranslate2".
        precision: How weights are stored: "float32", "bfloat16" or "int8"; for ctranslate2 also "float16" or "int16".
        source_language: The source language, for a translator that states none.
        target_language: The target language, likewise.

    Returns:
        The new folder.
    """
    from regard import registry
    from regard.errors import UserError, suggestion
    from regard.loading import export as for_regard

    formats = registry.kinds("interchange")
    if format != OWN and format not in formats:
        raise UserError(f"format: no '{format}'{suggestion(format, [OWN, *formats])}")
    if format == OWN and precision in ("float16", "int16"):
        raise UserError(
            f"precision {precision} needs the format ctranslate2; Regard's own folders keep weights in float32, "
            "bfloat16 or int8"
        )
    if format != OWN and (source_language or target_language):
        raise UserError(f"a folder for {format} does not state its languages; leave them out")
    if Path(output).exists():
        raise UserError(f"{output} already exists; choose another folder")
    if format == OWN:
        return for_regard(model, output, precision, source_language, target_language)
    return cast(Path, registry.factory("interchange", format, "format")(model, output, precision))
