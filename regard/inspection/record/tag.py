"""Record a tagger: the tag of each word of a text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard.errors import UserError
from regard.inspection.record import _text
from regard.inspection.record.attribution import LabelCandidates
from regard.inspection.trace.base import Side
from regard.inspection.trace.next_token import Guess, Option
from regard.inspection.trace.text import TextTrace
from regard.model.crf_tagger import CrfTagger

if TYPE_CHECKING:
    from regard.task.tag import Tagger


@torch.inference_mode()
def record_tagging(tagger: Tagger, text: str, name: str = "") -> TextTrace:
    """The trace of one tagged text."""
    (answer,) = tagger.tag([text])
    words = answer.words
    if not words:
        raise UserError("there is nothing to inspect: the text is empty")
    ids = _text.token_ids(tagger, words)
    reader = _text.text_input(tagger)
    first = reader.word_positions(words).tolist()  # the token of each word that its tag is read from
    logits, captured = _text.forward(tagger, ids)
    chosen = [tagger.names.index(tag) for tag in answer.tags]

    def probabilities(logits: Tensor) -> Tensor:
        rows = logits.float()[:, first]
        if not isinstance(tagger.model, CrfTagger):
            return rows.softmax(-1)
        mask = torch.ones(rows.shape[:2], dtype=torch.bool, device=rows.device)
        return tagger.model.chain.marginals(rows, mask)

    def log_probabilities(source: Tensor) -> Tensor:
        return probabilities(_text.logits_of(tagger, source)).log()

    guesses = [
        Guess(word, tag, row[own], _ranked(tagger.names, row))
        for word, tag, own, row in zip(words, answer.tags, chosen, probabilities(logits)[0].tolist())
    ]
    word_of = [number for number, own in enumerate(reader.words(words)) for _ in own]
    side = Side(text, reader.tokenizer.pieces(ids), words, _text.with_enclosing(reader, word_of))
    return _text.text_trace(
        tagger,
        name,
        side,
        ids,
        captured,
        guesses,
        str(answer),
        log_probabilities,
        chosen,
        LabelCandidates(tagger.names),
        [[position] for position in first],
    )


def _ranked(names: list[str], probabilities: list[float]) -> list[Option]:
    return sorted(map(Option, names, probabilities), key=lambda one: -one.probability)
