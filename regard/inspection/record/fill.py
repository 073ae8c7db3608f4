"""Record a masked language model: the words that fit each blank of a text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard.inspection.record import _text
from regard.inspection.record.attribution import TokenCandidates
from regard.inspection.record.translate import words_of
from regard.inspection.trace.base import NO_WORD, Side
from regard.inspection.trace.next_token import Guess, Option
from regard.inspection.trace.text import TextTrace

if TYPE_CHECKING:
    from regard.task.fill import Filler

OPTIONS = 10
"""Words that are recorded for each blank."""


@torch.inference_mode()
def record_filling(filler: Filler, text: str, name: str = "") -> TextTrace:
    """The trace of one text whose blanks were filled."""
    ids, blanks = filler.hidden(text)
    tokenizer = filler.tokenizer
    (answer,) = filler.fill([text], top=OPTIONS)
    (logits,), captured = _text.forward(filler, ids, blanks)
    guesses, chosen = [], []
    for number, (row, words) in enumerate(zip(logits, answer.blanks), 1):
        options = [Option(one.word, one.probability) for one in words]
        best = options[0] if options else Option("_", 0.0)
        guesses.append(Guess(f"blank {number}", best.token, best.probability, options))
        ranked = row.argsort(descending=True).tolist()
        same = (token for token in ranked if tokenizer.surfaces([token])[0].strip() == best.token)
        chosen.append(next(same, int(row.argmax())))

    def log_probabilities(source: Tensor) -> Tensor:
        return _text.logits_of(filler, source, blanks).log_softmax(-1)

    tokens = ["_" if index in blanks else token for index, token in enumerate(tokenizer.pieces(ids))]
    reader = _text.text_input(filler)
    kept, word_of = words_of(tokenizer, text, reader.bare(ids))
    word_of = _text.with_enclosing(reader, word_of)
    for blank in blanks:
        word_of[blank] = NO_WORD
    side = Side(text, tokens, kept, word_of)
    return _text.text_trace(
        filler,
        name,
        side,
        ids,
        captured,
        guesses,
        answer.text,
        log_probabilities,
        chosen,
        TokenCandidates(tokenizer),
        [[position] for position in blanks],
    )
