"""The models that ship with the package: each folder here is a model folder, and its name is the model's name."""

from __future__ import annotations

from pathlib import Path


def shipped_models() -> dict[str, Path]:
    """Every shipped model's folder by its name."""
    return {path.parent.name: path.parent for path in sorted(Path(__file__).parent.glob("*/manifest.json"))}
