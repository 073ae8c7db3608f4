"""The vocabulary of an imported model in our numbering: special tokens first, then the model's own in their order."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from regard.data.tokenizer._base import SPECIALS, displayed, spell
from regard.errors import UserError
from regard.registry import MOST
from regard.special_tokens import BEGIN, END, PAD, UNKNOWN

_OTHER_NAMES = ["<padding>", "<unknown>", "<begin>", "<end>"]
_SURROGATES: dict[int, str | None] = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")


class ImportedVocabulary:
    """Every token by id: its name (unique) and the text that it adds.

    A reserved token, one of the special or hidden ones, never stands for text: text that reads the same is spelled
    with the tokens of its characters.
    """

    def __init__(
        self,
        tokens: Sequence[str],
        specials: Sequence[str],
        hidden: Collection[str],
        parts: Iterable[str | int | bytes],
    ) -> None:
        """`parts` has the text of each of `tokens`, as `spell` takes it."""
        if len(tokens) + len(SPECIALS) > MOST:
            raise UserError(f"tokenizer.json has {len(tokens):,} tokens; {MOST:,} are the most")
        taken: set[str] = set()
        for token in tokens:
            if token in taken:
                raise UserError(f"tokenizer.json has the token {token[:40]!r} twice; take another copy of the model")
            taken.add(token)
        if not all(tokens):
            raise UserError("tokenizer.json has a token without a name; take another copy of the model")
        self.names = [*_distinct(specials, taken), *tokens]
        self.ids = {name: i for i, name in enumerate(self.names)}
        self.reserved = {*range(len(SPECIALS)), *(self.ids[token] for token in hidden if token in self.ids)}
        self._parts: list[str | int | bytes] = [*[""] * len(SPECIALS), *parts]
        for i in self.reserved:
            self._parts[i] = ""
        self.pieces = [
            displayed(part) if isinstance(part, bytes) and i not in self.reserved else name
            for i, (name, part) in enumerate(zip(self.names, self._parts))
        ]
        """How each token is displayed. Byte-level BPE names the token of " word" "Ġword"."""

    def __len__(self) -> int:
        return len(self.pieces)

    def lookup(self, pieces: Iterable[str]) -> list[int]:
        """The ids of the pieces that a text was cut into."""
        found: list[int] = []
        for piece in pieces:
            token = self.ids.get(piece, UNKNOWN)
            if token == UNKNOWN or token not in self.reserved:
                found.append(token)
            else:
                found += self.spelled(piece)
        return found

    def spelled(self, text: str) -> list[int]:
        """The tokens of a text's characters."""
        ids = (self.ids.get(character, UNKNOWN) for character in text)
        return [UNKNOWN if i in self.reserved else i for i in ids]

    def surfaces(self, ids: Sequence[int]) -> list[str]:
        return spell(self._parts[i] for i in ids)


def without_surrogates(text: str) -> str:
    """The text as UTF-8 can have it."""
    return text if text.isprintable() else text.translate(_SURROGATES)


def _distinct(specials: Sequence[str], taken: Collection[str]) -> list[str]:
    """Names of the special tokens that no other token has: a foreign `</s>` may be both our BEGIN and our END."""
    if len(specials) != len(SPECIALS):
        raise UserError(f"tokenizer.json names {len(specials)} special tokens, not {len(SPECIALS)}")
    names: dict[int, str] = {}
    for i in (END, UNKNOWN, PAD, BEGIN):
        tried = [specials[i], SPECIALS[i], _OTHER_NAMES[i]]
        free = [name for name in tried if name and name not in taken and name not in names.values()]
        if not free:
            raise UserError(
                f"tokenizer.json has other tokens with the name {tried[-1]}; take another copy of the model"
            )
        names[i] = free[0]
    return [names[i] for i in range(len(SPECIALS))]
