"""A translation seen from inside: searched as always, then gone through once more with everything watched.

The search is the one that translates, so what is seen belongs to what is said; and what is seen is of a forward pass
over the finished text by itself, so it shows the hypothesis that was chosen, whatever the search did to get there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from regard.data.batching import pad
from regard.decoding.watching import Step, watching
from regard.errors import UserError
from regard.inspection.capture import capture
from regard.inspection.look import Branch, Candidate, Look, SearchStep
from regard.inspection.shown import READING, WRITING, Side
from regard.task import _told as told
from regard.types import BEGIN, END

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
) -> Look:
    """What the model did to translate one sentence. Who asks has made sure that it is one.

    Of the `n_best` translations that the search is to find, number `of` is looked at, counted from 0.
    """
    settings, tokenizer, model = translator.recipe.decoding, translator.tokenizer, translator.model
    width = settings.beam if beam is None else beam
    source = translator.encode(text)
    steps: list[Step] = []
    with watching(steps.append):
        (found,) = translator.search(
            [source],
            beam=width,
            n_best=max(n_best, of + 1),
            length_penalty=settings.length_penalty if length_penalty is None else length_penalty,
            max_length=settings.max_length if max_length is None else max_length,
        )
    if not 0 <= of < len(found):
        raise UserError(f"translation {of}: the search found {len(found)}, counted from 0")
    best = found[of]
    written = [*best.ids, END] if best.finished else best.ids
    fed = [BEGIN, *written[:-1]]
    ids, mask = (tensor.to(translator.device) for tensor in pad([[*source, END]]))
    with capture(model) as seen:
        logits = model(ids, mask, torch.tensor([fed], device=translator.device))
    sure = logits[0].float().softmax(-1).gather(1, torch.tensor(written, device=logits.device)[:, None])[:, 0]
    decoded = tokenizer.decode(best.ids).strip()
    lengths = {READING: len(source) + 1, WRITING: len(fed)}
    modules = dict(model.named_modules())
    return Look(
        model=name,
        source=Side(text.strip(), tokenizer.pieces([*source, END]), *_words(translator, text, source)),
        target=Side(decoded, tokenizer.pieces(written), *_words(translator, decoded, best.ids)),
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
        search=_search(steps, best.ids, best.finished, translator),
        candidates=[
            Candidate(tokenizer.decode(one.ids).strip(), one.log_probability, one.score, one.finished) for one in found
        ],
        of=of,
    )


def _words(translator: Translator, text: str, ids: list[int]) -> tuple[list[str], list[int]]:
    """The words as they were typed, where the tokenizer kept as many of them; else as it gives them back."""
    typed, kept = text.split(), translator.tokenizer.decode(ids).split()
    return typed if len(typed) == len(kept) else kept, translator.tokenizer.word_index(ids)


def _search(steps: Sequence[Step], ids: list[int], finished: bool, translator: Translator) -> list[SearchStep]:
    """The steps of one sentence's search, without rows that lead nowhere."""
    found: list[SearchStep] = []
    before: dict[int, tuple[int, list[int]]] = {0: (0, [])}  # row -> its place in the list, and the tokens so far
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
            shown = translator.tokenizer.pieces([token])[0]
            still.append(Branch(place, shown, total, so_far == ids[: len(so_far)]))
        ended = [
            Branch(
                before[row][0], translator.tokenizer.pieces([END])[0], end, finished and before[row][1] == ids, score
            )
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
