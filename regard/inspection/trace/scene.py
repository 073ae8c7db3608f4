"""What a model looked at that is no text, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass
class Scene:
    """What a model looked at, cut into places that come row by row: patches of a picture, moments of a sound."""

    name: str
    pixels: np.ndarray
    """(height, width, 1 or 3) bytes: what the model was given, after cropping and shrinking."""
    rows: int
    columns: int
    places: list[str]
    """What they are called."""
    before: int = 0
    """How many tokens stand before them: one, where there is a class token."""
    notes: list[str] = field(default_factory=list)
    """What had to be changed in it."""

    @property
    def tokens(self) -> list[str]:
        return ["class"][: self.before] + self.places

    def of_places(self, weights: np.ndarray) -> np.ndarray:
        """(..., tokens) -> (..., rows, columns)"""
        return weights[..., self.before :].reshape(*weights.shape[:-1], self.rows, self.columns)

    def size(self, longest: float) -> tuple[float, float]:
        """Width and height of it where the longer of them is about so long: each place has whole dots. What is only
        one row is as wide as can be, whatever it is."""
        height, width = self.pixels.shape[:2]
        scale = longest / max(height, width)
        wide, high = (width * scale, height * scale) if self.rows > 1 else (longest, longest / 4)
        return max(1, round(wide / self.columns)) * self.columns, max(1, round(high / self.rows)) * self.rows
