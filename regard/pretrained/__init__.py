"""The models that ship with the package: each folder here is a model folder, and its name is the model's name.

Beside its files a folder has a card, `card.md`: what the model is, of which data under which licence it was made, what
it scores and what it is not good for. A card is for people: no hash goes over it, and no model needs one.
"""

from __future__ import annotations

import re
from pathlib import Path

CARD = "card.md"


def shipped_models() -> dict[str, Path]:
    """Every shipped model's folder by its name."""
    return {path.parent.name: path.parent for path in sorted(Path(__file__).parent.glob("*/manifest.json"))}


def card_of(folder: Path) -> str:
    """The card in a model folder; empty where there is none."""
    path = folder / CARD
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def score_in(card: str) -> str:
    """What a card says in one line of how good the model is; empty where it says nothing."""
    found = re.search(r"^- Score: (.*(?:\n  .*)*)", card, re.MULTILINE)
    return " ".join(found[1].split()) if found else ""
