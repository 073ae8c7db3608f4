"""The terms of a glossary as a tokenizer writes them: what a constrained search needs, as lists. Imports no torch."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence

from regard.data.tokenizer._base import SPACE, Tokenizer
from regard.decoding.constraints import Constraint, Start, TokenForm
from regard.glossary import INFLECTION, MUST, SENTENCE_ENDS, Wanted, is_inside_word
from regard.special_tokens import END, UNKNOWN

PREFERENCE = 10.0
"""How much log-probability a preferred term may cost."""
MOST_INFLECTED = 8
"""Tokens that extend a preferred form which are tried besides it."""
_BYTE = re.compile(r"<0x[0-9A-Fa-f]{2}>")
_OPENERS = ("(", "'")
"""Signs after which a word begins without a space."""
_GLUED = tuple("('[«“‘\"-/’")


class TermEncoder:
    """Encodes terms for one tokenizer (of the target language)."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        texts = [one.replace(SPACE, " ") for one in tokenizer.pieces(range(len(tokenizer)))]
        inside = [bool(_BYTE.fullmatch(text)) for text in texts]
        self.begins = [not within and not is_inside_word(text[:1]) for text, within in zip(texts, inside)]
        """By token: whether it begins outside of a word."""
        self.ends = [not within and not is_inside_word(text[-1:]) for text, within in zip(texts, inside)]
        self.ends_sentence = [text.strip()[-1:] in SENTENCE_ENDS and bool(text.strip()) for text in texts]
        self.begins[END] = True
        self._texts = sorted((text, number) for number, text in enumerate(texts))

    def encode(self, wanted: Wanted) -> Constraint | None:
        """None if the tokenizer cannot write any form of it."""
        forms: dict[tuple[int, ...], TokenForm] = {}
        for form in wanted.forms:
            for tokens, start in self._ways(form.text):
                if form.at_start:
                    start = Start.AT_SENTENCE if start is Start.ANYWHERE else Start.AT_TEXT
                if tokens and UNKNOWN not in tokens and (tokens not in forms or start < forms[tokens].start):
                    forms[tokens] = TokenForm(tokens, start, wanted.mode == MUST)
        bonus = math.inf if wanted.mode == MUST else PREFERENCE
        if wanted.mode != MUST:
            forms |= {
                ids: TokenForm(ids, Start.ANYWHERE, False)
                for form in wanted.forms
                for ids in self._inflected(form.text)
            }
        return Constraint(tuple(forms.values()), wanted.times, bonus) if forms else None

    def after(self, before: Sequence[int], text: str) -> tuple[int, ...]:
        """The tokens that add a word to others: with a space, unless those end in an apostrophe or a bracket."""
        if not before:
            return tuple(self._tokenizer.encode(text))
        ways = {start: tokens for tokens, start in reversed(self._ways(text))}
        glued = self._tokenizer.decode(list(before))[-1:] in _GLUED
        order = (Start.AT_WORD, Start.ANYWHERE) if glued else (Start.ANYWHERE, Start.AT_WORD)
        return next((ways[start] for start in order if start in ways), ())

    def _ways(self, text: str) -> list[tuple[tuple[int, ...], Start]]:
        """The tokens of a text: after a space, after a sign, and where it begins everything."""
        encode = self._tokenizer.encode
        at_start = tuple(encode(text))
        ways = []
        for opener in _OPENERS:
            alone = encode(opener)
            for between, start in ((" ", Start.ANYWHERE), ("", Start.AT_WORD)):
                both = encode(opener + between + text)
                if both[: len(alone)] == alone:
                    tokens = tuple(both[len(alone) :])
                    free = bool(tokens) and self.begins[tokens[0]]
                    ways.append((tokens, Start.ANYWHERE if free and between else max(start, Start.AT_WORD)))
        free = bool(at_start) and self.begins[at_start[0]] and any(way == (at_start, Start.ANYWHERE) for way in ways)
        return [*ways, (at_start, Start.ANYWHERE if free else Start.AT_TEXT)]

    def _inflected(self, text: str) -> list[tuple[int, ...]]:
        """The same with a single token for its last word and a few more letters."""
        before, space, last = text.rpartition(" ")
        first = self._tokenizer.encode(before) if before else []
        stem = " " + last
        found: list[tuple[int, ...]] = []
        at = bisect_left(self._texts, (stem,))
        while at < len(self._texts) and self._texts[at][0].startswith(stem) and len(found) < MOST_INFLECTED:
            whole, number = self._texts[at]
            rest = whole[len(stem) :]
            if 0 < len(rest) <= INFLECTION and rest.isalpha():
                found.append((*first, number))
            at += 1
        return found


def constraints_of(
    encoder: TermEncoder, wanted: Sequence[Wanted], warn: Callable[[str], None] | None = None
) -> list[Constraint]:
    """The constraints of a sentence, without terms that the tokenizer cannot write."""
    found = []
    for term in wanted:
        if made := encoder.encode(term):
            found.append(made)
        elif warn:
            warn(f"the model cannot write '{term.forms[0].text}' of the glossary: it has characters that it never saw")
    return found
