"""A request's texts, translated: cut into sentences, given to the engine, and put together exactly.

What all translating routes share, whatever their contract. Knows neither HTTP nor models.
"""

from __future__ import annotations

from dataclasses import dataclass

from regard.serving.catalogue import Catalogue
from regard.serving.detection import detect
from regard.serving.engine import Engine, Search, Translated
from regard.serving.languages import name
from regard.serving.settings import Settings
from regard.serving.text import Piece, pieces_of

ENOUGH = 2000
"""Characters of a text that are looked at to find its language."""


class Unsupported(Exception):
    """A language or pair of languages that this server does not have."""


@dataclass(frozen=True)
class Asked:
    """What is to be translated; languages by their internal codes."""

    texts: list[str]
    source: str
    """A code, or `auto`."""
    target: str
    html: bool = False
    alternatives: int = 0
    owner: str = ""
    """Whose request it is: what is kept of one owner's is not shown to another."""


@dataclass(frozen=True)
class Answered:
    texts: list[str]
    alternatives: list[list[str]]
    """Other translations of each text, none of them empty or the same as another."""
    detected: tuple[str, float] | None = None
    """Language and confidence, 0 to 100, of all texts together; None when the source was given."""
