"""A foreign vocabulary in our order: PAD, UNKNOWN, BEGIN and END are 0 to 3, all others follow in their old order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from regard.data.tokenizer._base import SPECIALS
from regard.special_tokens import BEGIN, END, PAD, UNKNOWN

NEVER = -1e9
"""The output bias of a token that their model does not have: it takes no part in the softmax."""


@dataclass(frozen=True)
class Vocabulary:
    """Which of their rows each of our tokens is."""

    rows: list[int]
    """By our id."""
    copies: tuple[int, ...]
    """Our ids that share a row with another one of the four special tokens, and are no tokens of theirs."""
    size: int
    """Rows of theirs."""

    def ids(self) -> dict[int, int]:
        """Our id of each row."""
        return {row: id for id, row in enumerate(self.rows) if id not in self.copies}


def renumbered(size: int, pad: int, unknown: int, begin: int, end: int) -> Vocabulary:
    """The vocabulary whose special tokens are these rows. If two are the same row, the one that a model may write, or
    else reads, keeps it."""
    special = [0] * len(SPECIALS)
    special[PAD], special[UNKNOWN], special[BEGIN], special[END] = pad, unknown, begin, end
    owner: dict[int, int] = {}
    for id in (END, BEGIN, UNKNOWN, PAD):
        owner.setdefault(special[id], id)
    copies = tuple(id for id, row in enumerate(special) if owner[row] != id)
    taken = set(special)
    return Vocabulary([*special, *(row for row in range(size) if row not in taken)], copies, size)


def spelled(pieces: Mapping[int, str], rows: Sequence[int]) -> tuple[list[str], set[str]]:
    """The pieces of these rows, and which of them have no text: a row without a piece gets a name of its own.

    Tables are often padded to a round number of rows, and a model may write these tokens, though it hardly does.
    """
    known, made = set(pieces.values()), set()
    result = []
    for row in rows:
        piece = pieces.get(row)
        if piece is None:
            piece = f"<unused_{row}>"
            while piece in known:
                piece = f"<{piece}>"
            made.add(piece)
        result.append(piece)
    return result, made


def special_names(tokens: Sequence[str]) -> list[str]:
    """How the four special tokens are displayed, unlike any other token."""
    taken, names = set(tokens), []
    for name in SPECIALS:
        while name in taken:
            name = f"<{name}>"
        names.append(name)
    return names
