"""Reads animated GIFs from an archive, within a limit on memory: shared by the formats of clips."""

from __future__ import annotations

import numpy as np

from regard.data.archive import Archive
from regard.data.input.clip import BYTES, decode_gif
from regard.errors import UserError

MOST_BYTES = 8_000_000_000


class Clips:
    """Decodes one clip at a time. Larger frames are scaled to a short side of `shrink` pixels; 0: never."""

    def __init__(self, shrink: int) -> None:
        self.shrink, self.held = shrink, 0

    def read(self, archive: Archive, name: str) -> np.ndarray:
        frames, _ = decode_gif(archive.read(name, BYTES), archive.where(name), self.shrink)
        self.held += frames.nbytes
        if self.held > MOST_BYTES:
            raise UserError(f"{archive.path}: more pixels than memory holds; use fewer clips or data.format.shrink")
        return frames
