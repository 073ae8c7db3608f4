"""The translation is the source text."""

from __future__ import annotations

from collections.abc import Iterator

from regard.checks._pair import Pair, is_common

FEWEST = 4
"""Different common words of a text that cannot be the same in two languages: fewer may be a name or a command."""


def check(pair: Pair) -> Iterator[str]:
    if pair.same_language:
        return
    words = [word.casefold() for word in pair.source_words]
    common = {word for word in pair.source_words if is_common(word)}
    if words == [word.casefold() for word in pair.target_words] and len(common) >= FEWEST:
        yield "the translation is the source text"
