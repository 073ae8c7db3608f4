"""Models for other programs: a format is a file here, and `regard export --to NAME` writes it."""

from __future__ import annotations

from pathlib import Path
from typing import cast

OWN = "regard"
"""What `to` says for a model folder of ours."""


def export(model: str | Path, out: str | Path, *, to: str = OWN, precision: str = "int8") -> Path:
    """Writes a model (a shipped one, a model folder or a run) into a new folder, smaller or for another program.

    `to` is "regard" or a format of this folder ("ctranslate2"). `precision` is how weights are kept: float32, bfloat16
    or int8; ctranslate2 also knows float16 and int16.
    """
    from regard import registry
    from regard.assemble import export as write
    from regard.errors import UserError, suggestion

    formats = registry.kinds("interchange")
    if to != OWN and to not in formats:
        raise UserError(f"to: no program '{to}'{suggestion(to, [OWN, *formats])}")
    if to != OWN:
        write = registry.factory("interchange", to, "to")
    return cast(Path, write(model, out, precision))
