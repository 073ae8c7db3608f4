"""A translation seen from inside: searched as always, then gone through once more with everything watched.

The search is the one that translates, so what is seen belongs to what is said; and what is seen is of a forward pass
over the finished text by itself, so it shows the hypothesis that was chosen, whatever the search did to get there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import torch

from regard.data.batching import pad
from regard.data.tokenizer._base import Tokenizer
from regard.decoding.step_callback import Step, on_step
from regard.errors import UserError
from regard.inspection.draw.gradients import Gradients
from regard.inspection.record import layers as told
from regard.inspection.record.arithmetic.selection import follower
from regard.inspection.record.decoding_step import check_given, likeliest
from regard.inspection.record.gradients import gradients_of
from regard.inspection.trace.base import READING, WRITING, Side
from regard.inspection.trace.translation import Branch, Candidate, Look, SearchStep
from regard.layers.capture import capture
from regard.types import BEGIN, END, Hypothesis

if TYPE_CHECKING:
    from regard.task.translate import Translator


@torch.inference_mode()
def look(
    translator: Translator,
    text: str,
    name: str = "",
    beam: int | None = None,
    length_penalty: float | None = None,
    max_length: int | None = None,
    n_best: int = 1,
    of: int = 0,
    given: Sequence[int] = (),
) -> Look:
    """What the model did to translate one sentence. Who asks has made sure that it is one.

    Of the `n_best` translations that the search is to find, number `of` is looked at, counted from 0. The
    tokens `given` are how it begins.
    """
    settings, tokenizer, model = translator.recipe.decoding, translator.tokenizer, translator.model
    width = settings.beam if beam is None else beam
    penalty = settings.length_penalty if length_penalty is None else length_penalty
    source = translator.encode(text)
    check_given(given, model, len(tokenizer))
    steps: list[Step] = []
    if given and given[-1] == END:
        found = [Hypothesis(list(given[:-1]), 0.0, 0.0)]
    else:
        with on_step(steps.append):
            (found,) = translator.search(
                [source],
                beam=width,
                n_best=max(n_best, of + 1),
                length_penalty=penalty,
                max_length=settings.max_length if max_length is None else max_length,
                prefix=given,
            )
    if not 0 <= of < len(found):
        raise UserError(f"translation {of}: the search found {len(found)}, counted from 0")
    best = found[of]
    written = [*best.ids, END] if best.finished else best.ids
    fed = [BEGIN, *written[:-1]]
    ids, mask = (tensor.to(translator.device) for tensor in pad([[*source, END]]))
    with capture(model) as seen:
        logits = model(ids, mask, torch.tensor([fed], device=translator.device))
    chances = logits[0].float().softmax(-1)
    sure = chances.gather(1, torch.tensor(written, device=logits.device)[:, None])[:, 0]
    decoded = tokenizer.decode(best.ids).strip()
    lengths = {READING: len(source) + 1, WRITING: len(fed)}
    modules = dict(model.named_modules())
    shown = Look(
        model=name,
        source=Side(text.strip(), tokenizer.pieces([*source, END]), *in_words(tokenizer, text, source)),
        target=Side(decoded, tokenizer.pieces(written), *in_words(tokenizer, decoded, best.ids)),
        read=tokenizer.pieces(fed),
        probabilities=sure.tolist(),
        log_probability=best.log_probability,
        score=best.score,
        finished=best.finished,
        attention=told.attention(modules, seen),
        gates=told.gates(modules, seen, lengths),
        ponder=told.ponder(modules, seen),
        positions=told.positions(modules, max(told.POSITIONS, *lengths.values()), translator.device),
        beam=width,
        length_penalty=penalty,
        search=searched(steps, best.ids, best.finished, tokenizer, given),
        candidates=[
            Candidate(tokenizer.decode(one.ids).strip(), one.log_probability, one.score, one.finished) for one in found
        ],
        of=of,
        ids=written,
        given=len(given),
        alternatives=[likeliest(one, tokenizer) for one in chances],
    )
    shown.calculate = follower(model, lambda: model(ids, mask, torch.tensor([fed], device=translator.device)))
    shown.follow = partial(_follow, translator, [*source, END], fed, written, shown)
    return shown


def _follow(
    translator: Translator, source: list[int], fed: list[int], written: list[int], shown: Look, position: int
) -> Gradients:
    """What one token of the translation came from. What is written after it cannot count, and is not fed."""
    read = fed[: position + 1]

    def log_probability() -> torch.Tensor:
        ids, mask = (tensor.to(translator.device) for tensor in pad([source]))
        logits = translator.model(ids, mask, torch.tensor([read], device=translator.device))
        return logits[0, -1].float().log_softmax(-1)[written[position]]

    lengths = {READING: len(source), WRITING: len(read)}
    return gradients_of(translator.model, log_probability, position, shown.target.tokens[position], lengths)


def in_words(tokenizer: Tokenizer, text: str, ids: list[int]) -> tuple[list[str], list[int]]:
    """The words as they were typed, where the tokenizer kept as many of them; else as it gives them back."""
    typed, kept = text.split(), tokenizer.decode(ids).split()
    return typed if len(typed) == len(kept) else kept, tokenizer.word_index(ids)


def searched(
    steps: Sequence[Step], ids: list[int], finished: bool, tokenizer: Tokenizer, given: Sequence[int] = ()
) -> list[SearchStep]:
    """The steps of one sentence's search, without rows that lead nowhere. It begins after the tokens given."""
    found: list[SearchStep] = []
    before: dict[int, tuple[int, list[int]]] = {0: (0, list(given))}  # row -> its place in the list, the tokens so far
    for step in steps:
        parents, tokens, totals, ends, scores, kept = (
            part[0].tolist() for part in (step.parents, step.tokens, step.totals, step.ends, step.scores, step.kept)
        )
        still: list[Branch] = []
        after: dict[int, tuple[int, list[int]]] = {}
        for row, (parent, token, total) in enumerate(zip(parents, tokens, totals)):
            if total == -torch.inf or parent not in before:
                continue
            place, past = before[parent]
            so_far = [*past, token]
            after[row] = (len(still), so_far)
            shown = tokenizer.pieces([token])[0]
            still.append(Branch(place, shown, total, so_far == ids[: len(so_far)]))
        ended = [
            Branch(before[row][0], tokenizer.pieces([END])[0], end, finished and before[row][1] == ids, score)
            for row, (end, score, stays) in enumerate(zip(ends, scores, kept))
            if stays and row in before
        ]
        found.append(SearchStep(still, ended))
        before = after
    return found


def one_sentence(translator: Translator, text: str) -> str:
    """The text, if it is translated in one piece."""
    parts = translator.parts(text)
    if not parts:
        raise UserError("there is nothing to look at: the text is empty")
    if len(parts) > 1:
        raise UserError(
            f"this text is translated in {len(parts)} parts; look at one at a time, the first is: {parts[0]}"
        )
    return parts[0]
