"""Whisper's special tokens: which language is spoken, what is to be written, and times (Radford et al. 2022, 2.3)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from regard.config import Recipe
from regard.data.tokenizer._base import Tokenizer
from regard.decoding.rules import Forbid, ForbidFirst, Rule
from regard.decoding.timestamps import Timestamps
from regard.errors import UserError
from regard.languages import internal, name
from regard.special_tokens import END

TRANSCRIBE, TRANSLATE, NO_TIMESTAMPS = "<|transcribe|>", "<|translate|>", "<|notimestamps|>"
NO_SPEECH = ("<|nospeech|>", "<|nocaptions|>")
"""Two names of the same token; the second is older."""
TIME_STEP = 0.02
"""Seconds between two tokens of time."""
_SPECIAL = re.compile(r"<\|.*\|>")
_LISTED = 12


@dataclass(frozen=True)
class SpeechTokens:
    """The ids of a model that is told what to do by the first tokens of its output."""

    languages: Mapping[str, int]
    """By our code; empty for a model of one language, which is told neither language nor task."""
    transcribe: int | None
    translate: int | None
    """None if it cannot: then it writes what is said."""
    no_timestamps: int
    no_speech: int | None
    text_end: int
    """The ids of text lie between END and this one."""
    never: tuple[int, ...]
    never_first: tuple[int, ...]

    @property
    def first_time(self) -> int:
        """The id of the time 0; those of later times follow."""
        return self.no_timestamps + 1

    def opening(self, language: str, translated: bool, timestamps: bool) -> list[int]:
        """What an output is forced to begin with."""
        told: list[int | None] = []
        if self.languages:
            told = [self.languages[language], self.translate if translated else self.transcribe]
        return [one for one in [*told, None if timestamps else self.no_timestamps] if one is not None]

    def rules(self, opening: Sequence[int]) -> list[Rule]:
        """The rules of a search after this opening."""
        found: list[Rule] = [Forbid(self.never), ForbidFirst(self.never_first, len(opening))]
        if self.no_timestamps not in opening:
            found.append(Timestamps(self.first_time, self.text_end, len(opening)))
        return found


def speech_tokens(recipe: Recipe, tokenizer: Tokenizer) -> SpeechTokens | None:
    """None for a model whose output begins with its text."""
    no_timestamps = tokenizer.id_of(NO_TIMESTAMPS)
    if no_timestamps is None:
        return None

    def ids(pieces: Sequence[str], where: str) -> list[int]:
        found = [(piece, tokenizer.id_of(piece)) for piece in pieces]
        if missing := [piece for piece, id in found if id is None]:
            raise UserError(f"{where}: the tokenizer has no token {missing[0][:40]!r}; take another copy of the model")
        return [id for _, id in found if id is not None]

    tags = recipe.languages.tags
    pieces = tokenizer.pieces(range(len(tokenizer)))
    return SpeechTokens(
        dict(zip(tags, ids([str(tag) for tag in tags.values()], "languages.tags"))),
        tokenizer.id_of(TRANSCRIBE),
        tokenizer.id_of(TRANSLATE) if tags else None,
        no_timestamps,
        next((id for piece in NO_SPEECH if (id := tokenizer.id_of(piece)) is not None), None),
        next(id for id, piece in enumerate(pieces) if id > END and _SPECIAL.fullmatch(piece)),
        tuple(ids(recipe.decoding.suppress, "decoding.suppress")),
        tuple(ids(recipe.decoding.suppress_first, "decoding.suppress_first")),
    )


def spoken_and_written(
    recipe: Recipe, tokens: SpeechTokens | None, source: str | None, target: str | None
) -> tuple[str, bool]:
    """The language that is spoken, empty if it is to be detected, and whether the text is a translation.

    What is not given is the recipe's; the source `auto` is detected."""
    heard = "" if source == "auto" else internal(source or recipe.source_language)
    wanted = internal(target or recipe.target_language)
    known = list(tokens.languages) if tokens and tokens.languages else [recipe.source_language]
    if heard and heard not in known:
        listed = ", ".join(sorted(known)[:_LISTED]) + (", ..." if len(known) > _LISTED else "")
        has = f"it has: {listed}" if listed else "it has one, so name none"
        raise UserError(f"this model does not have the language {_named(heard)}; {has}")
    heard = heard or (known[0] if len(known) == 1 else "")
    if not wanted or wanted == heard:
        return heard, False
    if tokens is None or tokens.translate is None or wanted not in recipe.languages.target:
        others = " or ".join(map(name, recipe.languages.target))
        can = f"it translates to {others}" if others else "it writes what is said, so name none"
        raise UserError(f"this model does not translate to {_named(wanted)}; {can}")
    return heard, True


def _named(code: str) -> str:
    return f"{name(code)} ({code})" if name(code) != code else repr(code[:20])
