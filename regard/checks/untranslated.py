"""Words of the source text are left in a translation."""

from __future__ import annotations

from collections.abc import Iterator

from regard.checks._pair import Pair, is_common, is_latin, quoted

RUN = 4
"""Common words in a row that two languages hardly ever share."""
LETTERS = 12
"""That they have together."""
OF_ANOTHER_SCRIPT = 3
"""Letters of a common Latin word that is left in a text of another script."""


def check(pair: Pair) -> Iterator[str]:
    if pair.same_language or pair.source.split() == pair.target.split():  # copied.py
        return
    for run in _shared_runs(pair):
        yield f"{quoted(' '.join(run))} is not translated"
    if is_latin(pair.source) and not is_latin(pair.target):
        known = {word for word in pair.source_words if is_common(word)}
        left = [w for w in pair.target_words if w in known and len(w) >= OF_ANOTHER_SCRIPT and is_latin(w)]
        if len(left) > 1:
            yield f"{quoted(' '.join(left))} is not translated"


def _shared_runs(pair: Pair) -> Iterator[list[str]]:
    """The longest runs of words that both texts have, each enough to say that it was left."""
    source = [word.casefold() for word in pair.source_words]
    starts = {tuple(source[i : i + RUN]) for i in range(len(source) - RUN + 1)}
    words, at = pair.target_words, 0
    while at + RUN <= len(words):
        end = at
        while end + RUN <= len(words) and tuple(word.casefold() for word in words[end : end + RUN]) in starts:
            end += 1
        run = words[at : end + RUN - 1] if end > at else []
        if _says_something(run):
            yield run
        at = end + RUN - 1 if end > at else at + 1


def _says_something(run: list[str]) -> bool:
    common = [word for word in run if is_common(word)]
    return len(common) >= RUN and sum(map(len, common)) >= LETTERS
