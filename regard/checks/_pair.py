"""A text and its translation, as the checks read them."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from regard.confidence.words import word_spans

if TYPE_CHECKING:
    from regard.glossary import Glossary

_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f\u1e00-\u1eff]")


@dataclass(frozen=True)
class Pair:
    source: str
    target: str
    source_language: str = ""
    """Our code; empty if not known."""
    target_language: str = ""
    glossary: Glossary | None = None

    @cached_property
    def source_words(self) -> list[str]:
        return [self.source[start:end] for start, end in word_spans(self.source)]

    @cached_property
    def target_words(self) -> list[str]:
        return [self.target[start:end] for start, end in word_spans(self.target)]

    @property
    def same_language(self) -> bool:
        return bool(self.source_language) and self.source_language == self.target_language


def is_common(word: str) -> bool:
    """Whether it is a word of the language rather than a name, an abbreviation or a number: letters in lower case, or
    of a script without case."""
    return len(word) > 1 and word.isalpha() and word == word.lower()


def is_latin(text: str) -> bool:
    """Whether most letters are Latin."""
    letters = sum(map(str.isalpha, text))
    return 2 * len(_LATIN.findall(text)) > letters > 0


def folded(word: str) -> str:
    """Without case and accents."""
    return "".join(c for c in unicodedata.normalize("NFKD", word.casefold()) if not unicodedata.combining(c))


def quoted(text: str) -> str:
    """A piece of a text for a message."""
    return f"'{text}'" if len(text) <= 60 else f"'{text[:57]}...'"
