"""Translations that go on from a given beginning and differ in the next word: what a person chooses from who rewrites
a translation word by word. Imports no torch.

The tokens that the model thinks most likely after the beginning are each completed by the search; of those that give
the same next word the best is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regard.errors import UserError
from regard.hypothesis import Hypothesis
from regard.special_tokens import UNKNOWN
from regard.task._terms import TermEncoder

if TYPE_CHECKING:
    from regard.task._base_translator import BaseTranslator

TRIED = 3
"""Tokens that are completed, in translations wanted: several often begin the same word."""
MOST = 32
"""Translations of one call."""


@dataclass(frozen=True)
class Continuation:
    """A translation that begins as it was told."""

    text: str
    next_word: str
    """The word after the beginning; empty if the translation ends there."""
    score: float
    """As that of a `Translation`: log-probability after the length penalty."""
    log_probability: float


def continuations(
    translator: BaseTranslator, text: str, prefix: str, n_best: int, source: str | None, target: str | None
) -> list[Continuation]:
    """The best translations that begin with the words of `prefix`, best first, each with another next word."""
    if not 1 <= n_best <= MOST:
        raise UserError(f"n-best must lie between 1 and {MOST}, not {n_best}")
    (told,) = translator.marks([text], source, target)
    parts = translator._encoded_parts(text, 1, None, told)
    if len(parts) != 1:
        why = "is empty" if not parts else "has several sentences, or is too long for the model"
        raise UserError(f"the text to go on with {why}; give one sentence")
    (_, ids), tokenizer = parts[0], translator.tokenizer.target
    beginning = " ".join(prefix.split())
    written = [*told.prefix, *(tokenizer.encode(beginning) if beginning else [])]
    if UNKNOWN in written:
        raise UserError("the beginning of the translation has characters that the model cannot write")
    settings = translator.recipe.decoding
    limit = settings.max_length + len(told.prefix)
    if len(written) >= limit:
        raise UserError(
            f"the beginning of the translation is longer than the model writes ({settings.max_length} tokens)"
        )
    if translator._terms is None:
        translator._terms = TermEncoder(tokenizer)
    begins = translator._terms.begins
    likely = translator.next_tokens(ids, written, TRIED * n_best + 2 * TRIED)
    # The beginning ends with a whole word. Scripts without spaces have no tokens that begin one.
    chosen = [token for token in likely if begins[token]] if beginning else likely
    chosen = (chosen or likely)[: TRIED * n_best]
    options: dict[str, Any] = {
        "beam": settings.beam,
        "n_best": 1,
        "length_penalty": settings.length_penalty,
        "max_length": limit,
        "batch_tokens": translator.default_batch_tokens(),
        "cancelled": None,
        "prefix": told.prefix,
    }
    found = [
        hypotheses[0]
        for hypotheses in translator.search_from(
            [ids] * len(chosen), [[*written, token] for token in chosen], **options
        )
    ]
    translator.complete_scores([(ids, one) for one in found], **options)
    if beginning:  # the translation may also end there
        found.append(translator.scored_whole(ids, written, len(told.prefix), settings.length_penalty))
    best: dict[str, Continuation] = {}
    for one in sorted((one for one in found if one.finished), key=_score, reverse=True):
        whole = " ".join(tokenizer.decode(one.ids[len(told.prefix) :]).split())
        if whole.startswith(beginning):
            next_word = next(iter(whole[len(beginning) :].split()), "")
            best.setdefault(next_word, Continuation(whole, next_word, one.score, one.log_probability))
    return list(best.values())[:n_best]


def _score(hypothesis: Hypothesis) -> float:
    return hypothesis.score
