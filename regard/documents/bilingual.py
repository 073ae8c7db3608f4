"""Reads files that hold texts beside their translations: .po, .xliff, .tsv, or two text files."""

from __future__ import annotations

from pathlib import Path

from regard.data.corpus.reading import read_pairs
from regard.documents.document import InvalidDocument, TranslatedPair, TranslatedPairs
from regard.documents.formats import suffix_of
from regard.documents.limits import MAX_BYTES
from regard.errors import UserError
from regard.regular_files import read_regular

CATALOGUES = {".po": "po", ".pot": "po", ".xlf": "xliff", ".xliff": "xliff"}
"""Documents that hold both texts, by the ending of their name."""


def read_bilingual(source: str | Path, target: str | Path | None = None) -> TranslatedPairs:
    """The pairs of one file, or of the lines of two."""
    suffix = suffix_of(str(source))
    if suffix in CATALOGUES:
        if target is not None:
            raise UserError(f"{source} holds both texts; leave out {target}")
        try:
            content = read_regular(source, MAX_BYTES)
        except OSError as error:
            raise UserError(f"{source}: cannot be read ({error.strerror})") from None
        from regard.documents.format import po, xliff

        try:
            return (po if CATALOGUES[suffix] == "po" else xliff).pairs(content)
        except InvalidDocument as error:
            raise InvalidDocument(f"{source}: {error}") from None
    if target is None and ".tsv" not in str(source):
        raise UserError(f"{source}: name its translation, too: regard check {source} TARGET; or a .tsv, .po or .xliff")
    lines = read_pairs([source], [] if target is None else [target], kept=True)
    return TranslatedPairs([TranslatedPair(*pair, f"line {number}") for number, pair in enumerate(lines, 1)])
