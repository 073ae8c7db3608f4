"""Scores of given texts, made of the log-probabilities of their tokens. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from regard.data.input._plain_text import PlainText
from regard.data.tokenizer._base import Tokenizer
from regard.errors import UserError
from regard.special_tokens import END
from regard.task._generated import Score

if TYPE_CHECKING:
    from regard.task._base_translator import BaseTranslator, Progress


def score_of(tokenizer: Tokenizer, ids: Sequence[int], log_probs: Sequence[float]) -> Score:
    """The score of a text whose tokens have these log-probabilities; the last one may be END, which is no word's."""
    text = list(ids[:-1]) if len(ids) and ids[-1] == END else list(ids)
    words = tokenizer.decode(text).split()
    sums = [0.0] * len(words)
    for word, log_prob in zip(tokenizer.word_index(text), log_probs):
        if words:
            sums[word] += log_prob
    return Score(tokenizer.pieces(list(ids)), list(log_probs), list(zip(words, sums)))


def score_translations(
    translator: BaseTranslator,
    sources: Any,
    targets: Any,
    languages: tuple[str | None, str | None],
    batch_tokens: int | None,
    progress: Progress | None,
) -> list[Score]:
    """The score of each translation, END included."""
    sources, targets = _texts(sources), _texts(targets)
    if len(sources) != len(targets):
        raise UserError(f"{len(sources)} sources but {len(targets)} translations; each source needs its own")
    told = translator.marks(sources, *languages)
    prefix = told[0].prefix if told else ()
    tokenizer = translator.tokenizer.target
    rows = [[*ids, END] for ids in tokenizer.encode_many(targets)]
    encoded = [translator.encode(source, one) for source, one in zip(sources, told)]
    budget = translator.default_batch_tokens() if batch_tokens is None else batch_tokens
    found = translator.token_log_probs(encoded, rows, prefix=prefix, batch_tokens=budget, progress=progress)
    return [score_of(tokenizer, ids, log_probs) for ids, log_probs in zip(rows, found, strict=True)]


def _texts(given: Any) -> list[str]:
    return [PlainText().accept(text) for text in given]
