"""The models that ship with the package: every folder here is a model folder, named after its model.

Each has a model card, `card.md`: what the model is, its training data and licence, its scores and limitations. Cards
are for people: they are not hashed, and no model needs one.
"""

from __future__ import annotations

import re
from pathlib import Path

CARD = "card.md"


DEFAULT = "fr-en"


def shipped_models() -> dict[str, Path]:
    """The folder of every shipped model by name, the default first."""
    found = {path.parent.name: path.parent for path in sorted(Path(__file__).parent.glob("*/manifest.json"))}
    return {DEFAULT: found.pop(DEFAULT), **found} if DEFAULT in found else found


def card_of(folder: Path) -> str:
    """The model card of a folder; empty if there is none."""
    path = folder / CARD
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def score_in(card: str) -> str:
    """The score line of a model card; empty if there is none."""
    found = re.search(r"^- Score: (.*(?:\n  .*)*)", card, re.MULTILINE)
    return " ".join(found[1].split()) if found else ""
