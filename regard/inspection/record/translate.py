"""Record a translation: search as always, then run the model once more over the result and capture its layers.

The search is the one that translates, so the trace belongs to the actual output; and the captured forward pass is over
the chosen hypothesis alone, whatever else the search tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import torch

from regard.data.batching import pad
from regard.data.input._plain_text import PlainText
from regard.data.tokenizer._base import Tokenizer
from regard.decoding.step_callback import Step, on_step
from regard.directions import NO_MARKS, Marks
from regard.errors import UserError
from regard.inspection.record.arithmetic.selection import calculator
from regard.inspection.record.attribution import Axis, TokenCandidates, attributor, written_axis
from regard.inspection.record.decoding_step import after_tags, alternatives_of, check_prefix
from regard.inspection.record.gradients import gradients_of
from regard.inspection.record.layers import layers_of
from regard.inspection.record.logit_lens import logit_lens
from regard.inspection.record.search import search_tree
from regard.inspection.record.what_if import what_if
from regard.inspection.trace.base import NO_WORD, SOURCE, TARGET, Choice, Side
from regard.inspection.trace.gradients import Gradients
from regard.inspection.trace.near import Near
from regard.inspection.trace.translation import Candidate, TranslationTrace
from regard.inspection.trace.what_if import WhatIf
from regard.layers.capture import capture
from regard.states import Hypothesis
from regard.types import BEGIN, END

if TYPE_CHECKING:
    from regard.task.translate import Translator


@torch.inference_mode()
def record_translation(
    translator: Translator,
    text: str,
    name: str = "",
    beam: int | None = None,
    length_penalty: float | None = None,
    max_length: int | None = None,
    n_best: int = 1,
    of: int = 0,
    prefix: Sequence[int] = (),
    told: Marks = NO_MARKS,
) -> TranslationTrace:
    """The trace of one translated sentence (`one_sentence`).

    The search finds `n_best` translations, and the trace is of number `of`, from 0. `prefix` are token ids that the
    translation is forced to begin with, after the tag of its language (`told`).
    """
    settings, tokenizer, model = translator.recipe.decoding, translator.tokenizer, translator.model
    output = tokenizer.target
    width = settings.beam if beam is None else beam
    penalty = settings.length_penalty if length_penalty is None else length_penalty
    source = translator.encode(text, told)
    closed = translator.source_row(source)
    tags = len(told.prefix)
    prefix = after_tags(prefix, told)
    check_prefix(prefix, model, len(output))
    steps: list[Step] = []
    if prefix and prefix[-1] == END:
        found = [Hypothesis(list(prefix[:-1]), 0.0, 0.0)]
    else:
        with on_step(steps.append):
            (found,) = translator.search(
                [source],
                beam=width,
                n_best=max(n_best, of + 1),
                length_penalty=penalty,
                max_length=(settings.max_length if max_length is None else max_length) + tags,
                prefix=prefix,
            )
    if not 0 <= of < len(found):
        raise UserError(f"translation {of}: the search found {len(found)}, counted from 0")
    best = found[of]
    written = [*best.ids, END] if best.finished else best.ids
    fed = [BEGIN, *written[:-1]]
    ids, mask = (tensor.to(translator.device) for tensor in pad([closed]))
    with capture(model) as captured:
        logits = model(ids, mask, torch.tensor([fed], device=translator.device))
    probabilities = logits[0].float().softmax(-1)
    chosen = probabilities.gather(1, torch.tensor(written, device=logits.device)[:, None])[:, 0]
    decoded = output.decode(best.ids[tags:]).strip()
    span = translator.text_span(source, told)
    words, word_of = words_of(tokenizer, text, source[span])
    words_written, of_written = words_of(output, decoded, best.ids[tags:])
    trace = TranslationTrace(
        model=name,
        source=Side(text.strip(), tokenizer.pieces(closed), words, [NO_WORD] * span.start + word_of),
        target=Side(decoded, output.pieces(written), words_written, [NO_WORD] * tags + of_written),
        read=output.pieces(fed),
        probabilities=chosen.tolist(),
        log_probability=best.log_probability,
        score=best.score,
        finished=best.finished,
        **layers_of(translator, captured, {SOURCE: len(closed), TARGET: len(fed)}),
        beam=width,
        length_penalty=penalty,
        search=search_tree(steps, best.ids, best.finished, output, prefix),
        candidates=[
            Candidate(output.decode(one.ids[tags:]).strip(), one.log_probability, one.score, one.finished)
            for one in found
        ],
        of=of,
        ids=written,
        given=len(prefix),
        alternatives=[alternatives_of(one, output) for one in probabilities],
        source_ids=list(closed),
    )
    trace.compute_calculation = calculator(
        model, lambda: model(ids, mask, torch.tensor([fed], device=translator.device))
    )
    trace.compute_gradients = partial(_gradients, translator, closed, fed, written, trace)
    trace.compute_logit_lens = lambda: logit_lens(
        model, lambda: model(ids, mask, torch.tensor([fed], device=translator.device)), output, trace.read, written
    )

    def again(other: str) -> TranslationTrace:
        other = one_sentence(translator, PlainText().accept(other), told)
        return record_translation(translator, other, name, beam, length_penalty, max_length, told=told)

    def compute_what_if(choice: Choice) -> WhatIf:
        return what_if(translator, closed, trace, again, choice.without, choice.mean, choice.patch, choice.other)

    def compute_near(choice: Choice) -> Near:
        from regard.inspection.record.near import near

        side = SOURCE if choice.attention == SOURCE else TARGET
        return near(translator, trace, told, side, choice.position, choice.index)

    trace.compute_what_if, trace.compute_near = compute_what_if, compute_near

    def log_probabilities(copies: int, outputs: int) -> torch.Tensor:
        ids, mask = (tensor.to(translator.device).expand(copies, -1) for tensor in pad([closed]))
        read = torch.tensor([fed[:outputs]], device=translator.device).expand(copies, -1)
        return model(ids, mask, read).float().log_softmax(-1)

    trace.compute_attribution = attributor(
        model,
        log_probabilities,
        written,
        {
            SOURCE: Axis(trace.source.tokens, words, trace.source.word_of),
            TARGET: written_axis(trace.read, words_written, trace.target.word_of),
        },
        Axis(trace.target.tokens, words_written, trace.target.word_of),
        TokenCandidates(output),
    )
    return trace


def _gradients(
    translator: Translator,
    source: list[int],
    fed: list[int],
    written: list[int],
    trace: TranslationTrace,
    position: int,
) -> Gradients:
    """Of one target token. The decoder is only fed the tokens before it; later ones cannot matter."""
    read = fed[: position + 1]

    def log_probability() -> torch.Tensor:
        ids, mask = (tensor.to(translator.device) for tensor in pad([source]))
        logits = translator.model(ids, mask, torch.tensor([read], device=translator.device))
        return logits[0, -1].float().log_softmax(-1)[written[position]]

    lengths = {SOURCE: len(source), TARGET: len(read)}
    return gradients_of(translator.model, log_probability, position, trace.target.tokens[position], lengths)


def words_of(tokenizer: Tokenizer, text: str, ids: Sequence[int]) -> tuple[list[str], list[int]]:
    """The words of a text and the word of each token: as typed, unless the tokenizer changed their number."""
    typed, kept = text.split(), tokenizer.decode(ids).split()
    return typed if len(typed) == len(kept) else kept, tokenizer.word_index(ids)


def one_sentence(translator: Translator, text: str, told: Marks = NO_MARKS) -> str:
    """The text, if it is translated in one piece."""
    parts = translator.parts(text, told=told)
    if not parts:
        raise UserError("there is nothing to inspect: the text is empty")
    if len(parts) > 1:
        raise UserError(
            f"this text is translated in {len(parts)} parts; inspect one at a time, the first is: {parts[0]}"
        )
    return parts[0]
