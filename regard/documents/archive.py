"""Reads and rewrites a zip archive, in memory: names and sizes are checked before anything is unpacked.

Nothing is ever extracted to a folder, so names of members cannot lead anywhere.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping

from regard.documents.document import InvalidDocument
from regard.documents.limits import MAX_MEMBERS, MAX_TAGS, MAX_TEXT, MAX_UNPACKED, MEBIBYTE

_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, ValueError, RuntimeError)
_DIRECTORY_ENTRY = b"PK\x01\x02"


class Archive:
    """A zip archive whose members are unpacked one by one, within limits."""

    def __init__(self, content: bytes):
        if content.count(_DIRECTORY_ENTRY) > 2 * MAX_MEMBERS:  # before zipfile makes an object of each
            raise InvalidDocument(f"the archive has more than {MAX_MEMBERS:,} members")
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(content))
        except _DAMAGED:
            raise InvalidDocument("the file is not a zip archive, or it is damaged") from None
        infos = self._zip.infolist()
        self._infos = {info.filename: info for info in infos}
        self._text_left, self._tags_left = 2 * MAX_TEXT, MAX_TAGS
        if len(infos) > MAX_MEMBERS:
            raise InvalidDocument(f"the archive has more than {MAX_MEMBERS:,} members")
        if len(self._infos) < len(infos):
            raise InvalidDocument("the archive has two members of one name")
        if any(info.flag_bits & 1 for info in infos):
            raise InvalidDocument("the document is encrypted; save it without a password")
        if any(info.compress_type not in _METHODS for info in infos):
            raise InvalidDocument("the archive is compressed in a way that office documents are not")
        if sum(info.file_size for info in infos) > MAX_UNPACKED:
            raise InvalidDocument(f"the archive unpacks to more than {MAX_UNPACKED // MEBIBYTE} MiB")

    @property
    def names(self) -> list[str]:
        return list(self._infos)

    def __contains__(self, name: str) -> bool:
        return name in self._infos

    def read(self, name: str) -> bytes:
        """A member that is read for its text. All of them together are limited in size and tags."""
        found = self._unpack(name, MAX_TEXT)
        self._text_left -= len(found)
        if self._text_left < 0:
            raise InvalidDocument(f"the archive has more than {2 * MAX_TEXT // MEBIBYTE} MiB of text")
        self._tags_left -= found.count(b"<")
        if self._tags_left < 0:
            raise InvalidDocument(f"the document has more than {MAX_TAGS:,} tags")
        return found

    def has(self, name: str, what: bytes) -> bool:
        """Whether a member contains this, whatever its size."""
        return what in self._unpack(name, MAX_UNPACKED)

    def _unpack(self, name: str, limit: int) -> bytes:
        try:
            with self._zip.open(name) as member:
                found = member.read(limit + 1)  # the size that the directory states may be wrong
        except _DAMAGED:
            raise InvalidDocument(f"the archive is damaged at {name[:100]!r}") from None
        if len(found) > limit:
            raise InvalidDocument(f"{name[:100]!r} in the archive is larger than {limit // MEBIBYTE} MiB")
        return found

    def rewritten(self, changed: Mapping[str, bytes]) -> bytes:
        """The archive with some members replaced; all others are the same, in the same order."""
        made = io.BytesIO()
        left = MAX_UNPACKED
        with zipfile.ZipFile(made, "w") as target:
            for name, info in self._infos.items():
                content = changed[name] if name in changed else self._unpack(name, left)
                left -= len(content)
                copied = zipfile.ZipInfo(name, info.date_time)
                copied.compress_type, copied.external_attr = info.compress_type, info.external_attr
                target.writestr(copied, content)
        return made.getvalue()
