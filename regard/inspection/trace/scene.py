"""An input that is not text, as plain data: an image cut into patches, or the spectrogram of a recording."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Scene:
    """An image cut into a grid of places, row by row: patches of an image, or time steps of a spectrogram."""

    name: str
    pixels: np.ndarray
    """(height, width, 1 or 3) bytes: the model's input, after cropping and resizing."""
    rows: int
    columns: int
    places: list[str]
    """The name of each place."""
    before: int = 0
    """How many tokens come before the places: 1 with a class token, 2 with a distillation token after it."""
    behind: list[str] = field(default_factory=list)
    """The names of tokens after the places that are not drawn: the silence that fills up a window of sound."""
    notes: list[str] = field(default_factory=list)
    """What was changed when the input was read."""

    @property
    def tokens(self) -> list[str]:
        return ["class", "distillation"][: self.before] + self.places + self.behind

    def on_places(self, weights: np.ndarray) -> np.ndarray:
        """(..., tokens) -> (..., places)"""
        return weights[..., self.before : self.before + len(self.places)]

    def of_places(self, weights: np.ndarray) -> np.ndarray:
        """(..., tokens) -> (..., rows, columns)"""
        return self.on_places(weights).reshape(*weights.shape[:-1], self.rows, self.columns)

    def size(self, longest: float) -> tuple[float, float]:
        """Width and height in pixels for a longer side of about `longest`; each place gets whole pixels.

        A single row (a spectrogram) always has the full width.
        """
        height, width = self.pixels.shape[:2]
        scale = longest / max(height, width)
        wide, high = (width * scale, height * scale) if self.rows > 1 else (longest, longest / 4)
        return max(1, round(wide / self.columns)) * self.columns, max(1, round(high / self.rows)) * self.rows


def png_url(pixels: np.ndarray) -> str:
    """Pixels (height, width, 1 or 3) as a data: URL of a PNG file."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
