"""Glossaries: how terms must, or should, be translated. Reads them, finds their terms in a text, checks a translation.

A glossary is lines of tab-separated columns: the term, its translation, and `must` (the default) or `prefer`. Either
side may have several forms, separated by `|`. Lines that begin with `#` are comments. Knows no model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from regard.data.normalise import normalise, plain
from regard.errors import UserError
from regard.regular_files import read_regular

MUST, PREFER = "must", "prefer"
MOST_BYTES = 10 << 20
MOST_TERMS = 20_000
LONGEST_FORM = 200
"""Characters of a form."""
MOST_FORMS = 8
"""Forms of one side."""
INFLECTION = 3
"""Letters by which a preferred translation may be longer than its form."""
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = f"[^\\W_{_UNSPACED}]"
"""A letter or digit of a script that puts spaces between words: between two of them no word ends."""
_BEFORE, _AFTER = f"(?<!{_WORD})", f"(?!{_WORD})"
WORD = re.compile(rf"{_WORD}+|[^\W_]|\S")
"""A word, a letter of a script without spaces, or a punctuation mark."""
SENTENCE_ENDS = ".!?…:。！？"
_SENTENCE_START = re.compile(rf"""(?:^|[{SENTENCE_ENDS}])["'«»“”„‘’(\[\s¿¡–—-]*$""")


class Term(NamedTuple):
    """An entry. A source form in lower case is found in any case, one with capitals only as it is written."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    mode: str = MUST


class Form(NamedTuple):
    """A way to write a translation."""

    text: str
    at_start: bool = False
    """Only where a sentence begins."""


@dataclass(frozen=True)
class Wanted:
    """A translation that a text calls for, as often as its term occurs."""

    forms: tuple[Form, ...]
    mode: str = MUST
    times: int = 1
    places: tuple[tuple[int, int], ...] = ()
    """Where its term is in the text: the first character, and the one after the last."""

    def words(self, text: str) -> list[int]:
        """The words of the text that its term is in, counted from 0; words are separated by spaces."""
        return [
            word
            for start, end in self.places
            for word in range(text.count(" ", 0, start), text.count(" ", 0, end - 1) + 1)
        ]

    def starts(self, text: str) -> bool:
        """Whether what follows this text begins a sentence."""
        return starts_sentence(text, len(text))

    def is_in(self, text: str) -> bool:
        """Whether a translation has it, at word boundaries, often enough."""
        return self.count(text) >= self.times

    def count(self, text: str) -> int:
        return len({end for form in self.forms for end in self._ends(normalise(text), form)})

    def _ends(self, text: str, form: Form) -> Iterator[int]:
        rest = f"[^\\W\\d_]{{0,{INFLECTION}}}" if self.mode == PREFER else ""
        for found in re.finditer(f"(?={_BEFORE}{re.escape(form.text)}{rest}{_AFTER})", text):
            if not form.at_start or starts_sentence(text, found.start()):
                yield found.start() + len(form.text)


def starts_sentence(text: str, position: int) -> bool:
    return bool(_SENTENCE_START.search(text[max(0, position - 12) : position]))


@dataclass(frozen=True)
class Glossary:
    """Terms and their translations, without order: of two terms that overlap in a text, the longer one counts."""

    terms: tuple[Term, ...]

    @classmethod
    def read(cls, path: str | Path) -> Glossary:
        """The glossary of a file. Raises a UserError that names the first line that is wrong."""
        try:
            return cls.parse(read_regular(path, MOST_BYTES).decode("utf-8-sig").splitlines(), str(path))
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror})") from None
        except UnicodeDecodeError:
            raise UserError(f"{path}: is not text in UTF-8; save it as UTF-8, with tabs between the columns") from None

    @classmethod
    def parse(cls, lines: Iterable[str], where: str = "the glossary") -> Glossary:
        terms = []
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.startswith("#"):
                continue
            terms.append(_term(line.split("\t"), f"{where}, line {number}"))
        return cls.of(terms, where)

    @classmethod
    def of(cls, terms: Iterable[Term | Sequence[str]], where: str = "the glossary") -> Glossary:
        """From terms, or from rows such as ("chien", "dog") and ("chien", "dog|hound", "prefer")."""
        made = tuple(
            one if isinstance(one, Term) else _term(one, f"{where}, entry {number}")
            for number, one in enumerate(terms, 1)
        )
        if len(made) > MOST_TERMS:
            raise UserError(f"{where}: has {len(made):,} terms; {MOST_TERMS:,} are the most")
        seen: dict[str, Term] = {}
        for term in made:
            for source in term.sources:
                if (other := seen.setdefault(source, term)) is not term:
                    raise UserError(
                        f"{where}: '{source}' is there twice, as '{'|'.join(other.targets)}' and "
                        f"'{'|'.join(term.targets)}'; join them in one line with |"
                    )
        return cls(made)

    def rows(self) -> list[tuple[str, str, str]]:
        """From which `of` makes the same glossary."""
        return [("|".join(term.sources), "|".join(term.targets), term.mode) for term in self.terms]

    def wanted(self, text: str) -> list[Wanted]:
        """The translations that a text calls for, in the order in which its terms first occur."""
        found: dict[tuple[Term, tuple[Form, ...]], list[tuple[int, int]]] = {}
        for start, end, term in self.occurrences(text):
            found.setdefault((term, _forms(term, text, start, end)), []).append((start, end))
        return [Wanted(forms, term.mode, len(places), tuple(places)) for (term, forms), places in found.items()]

    def occurrences(self, text: str) -> list[tuple[int, int, Term]]:
        """Where terms are in a normalised text, from left to right; the longest one at each place."""
        found: list[tuple[int, int, Term]] = []
        free = 0
        for word in WORD.finditer(text):
            if word.start() < free:
                continue
            for source, term in self._by_first_word.get(word[0].lower(), ()):
                end = word.start() + len(source)
                written = text[word.start() : end]
                same = written == source or (source == source.lower() and written.lower() == source)
                if same and not (is_inside_word(text[end - 1 : end]) and is_inside_word(text[end : end + 1])):
                    found.append((word.start(), end, term))
                    free = end
                    break
        return found

    def occurring(self, texts: Iterable[str]) -> Glossary:
        """The terms that are in any of these texts."""
        seen = {term for text in texts for _, _, term in self.occurrences(plain(normalise(text)))}
        return Glossary(tuple(term for term in self.terms if term in seen))

    @cached_property
    def _by_first_word(self) -> dict[str, list[tuple[str, Term]]]:
        """Source forms by the word that they begin with, the longest first."""
        found: dict[str, list[tuple[str, Term]]] = {}
        for term in self.terms:
            for source in map(plain, term.sources):
                first = WORD.match(source)
                found.setdefault(first[0].lower() if first else "", []).append((source, term))
        return {word: sorted(some, key=lambda one: -len(one[0])) for word, some in found.items()}


def _term(columns: Sequence[str], where: str) -> Term:
    if not 2 <= len(columns) <= 3 or not all(isinstance(one, str) for one in columns):
        raise UserError(f"{where}: has {len(columns)} columns; write TERM<tab>TRANSLATION, or a third column: prefer")
    mode = (columns[2].strip() if len(columns) == 3 else "") or MUST
    if mode not in (MUST, PREFER):
        raise UserError(f"{where}: '{mode}' in the third column; write must or prefer")
    sides = []
    for side, column in zip(("term", "translation"), columns):
        forms = tuple(dict.fromkeys(filter(None, map(normalise, column.split("|")))))
        if not forms:
            raise UserError(f"{where}: the {side} is empty")
        if len(forms) > MOST_FORMS or any(len(form) > LONGEST_FORM for form in forms):
            raise UserError(f"{where}: a {side} has {MOST_FORMS} forms of {LONGEST_FORM} characters at most")
        sides.append(forms)
    return Term(sides[0], sides[1], mode)


def _forms(term: Term, text: str, start: int, end: int) -> tuple[Form, ...]:
    """How the translation may be written: as in the glossary; capitalised where a sentence begins, and anywhere if the
    text capitalises the term elsewhere; in capitals if the text has it so."""
    written = text[start:end]
    forms = [Form(form) for form in term.targets]
    capitalised = [form[:1].upper() + form[1:] for form in term.targets]
    if written not in term.sources and written == written.upper() and len(written) > 1:
        forms += [Form(form.upper()) for form in term.targets]
    title = written not in term.sources and written[:1].isupper() and not starts_sentence(text, start)
    forms += [Form(form, at_start=not title) for form in capitalised]
    known: dict[str, Form] = {}
    for form in forms:
        known.setdefault(form.text, form)
    return tuple(known.values())


def is_inside_word(character: str) -> bool:
    """Whether another letter beside this character would belong to the same word."""
    return bool(re.match(_WORD, character))
