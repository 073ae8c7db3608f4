"""Limits on documents, checked before memory is spent: a file may come from anyone."""

from __future__ import annotations

MEBIBYTE = 1 << 20
MAX_BYTES = 64 * MEBIBYTE
"""A document as a file."""
MAX_MEMBERS = 10_000
MAX_UNPACKED = 512 * MEBIBYTE
"""All members of an archive together."""
MAX_TEXT = 32 * MEBIBYTE
"""A text file, or a member of an archive that is read for its text."""
MAX_TAGS = 1_000_000
"""Tags in all members of an archive that are read for their text: what XML costs in memory."""
MAX_DEPTH = 200
"""Nesting of XML and JSON."""
