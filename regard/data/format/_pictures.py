"""Decodes pictures from an archive, up to a limit of memory. Shared by the picture formats."""

from __future__ import annotations

from regard.data import picture
from regard.data.archive import Archive
from regard.errors import UserError

MOST_BYTES = 8_000_000_000


class Pictures:
    """Decodes pictures one by one and shrinks them so that the short side is at most `shrink` pixels (0: no limit)."""

    def __init__(self, shrink: int) -> None:
        if not isinstance(shrink, int) or shrink < 0:
            raise UserError(f"data.format.shrink: wants a number of pixels, or 0 for no limit; not {shrink!r}")
        self.shrink = shrink
        self.held = 0

    def read(self, archive: Archive, name: str) -> picture.Pixels:
        data = archive.read(name, picture.MOST_BYTES)
        pixels = picture.decode_picture(data, archive.where(name), self.shrink)
        self.held += pixels.nbytes
        if self.held > MOST_BYTES:
            raise UserError(f"{archive.path}: more pixels than memory holds; use fewer pictures or data.format.shrink")
        return pixels
