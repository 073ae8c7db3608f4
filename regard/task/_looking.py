"""A translation seen from inside: searched as always, then gone through once more with everything watched.

The search is the one that translates, so what is seen belongs to what is said; and what is seen is of a forward pass
over the finished text by itself, so it shows the hypothesis that was chosen, whatever the search did to get there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.batching import pad
from regard.decoding.watching import Step, watching
from regard.errors import UserError
from regard.inspection.capture import Seen, capture
from regard.inspection.look import (
    CROSS,
    READING,
    WRITING,
    Attention,
    Branch,
    Gates,
    Look,
    Ponder,
    Positions,
    SearchStep,
    Side,
)
from regard.layers.attention._base import Attention as AttentionLayer
from regard.layers.cell._base import Cell
from regard.layers.halting import Halting
from regard.layers.position.none import NoPosition
from regard.layers.recurrence import Recurrence
from regard.types import BEGIN, END

if TYPE_CHECKING:
    from regard.task.translate import Translator

POSITIONS = 64
"""Positions whose vectors are shown, or as many as the longer text has."""


@torch.inference_mode()
def look(
    translator: Translator,
    text: str,
    name: str = "",
    beam: int | None = None,
    length_penalty: float | None = None,
    max_length: int | None = None,
) -> Look:
    """What the model did to translate one sentence. Who asks has made sure that it is one."""
    settings, tokenizer, model = translator.recipe.decoding, translator.tokenizer, translator.model
    width = settings.beam if beam is None else beam
    source = translator.encode(text)
    steps: list[Step] = []
    with watching(steps.append):
        ((best, *_),) = translator.search(
            [source],
            beam=width,
            length_penalty=settings.length_penalty if length_penalty is None else length_penalty,
            max_length=settings.max_length if max_length is None else max_length,
        )
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
        attention=_attention(modules, seen),
        gates=_gates(modules, seen, lengths),
        ponder=_ponder(modules, seen),
        positions=_positions(modules, max(POSITIONS, *lengths.values()), translator.device),
        beam=width,
        search=_search(steps, best.ids, best.finished, translator),
    )


def _words(translator: Translator, text: str, ids: list[int]) -> tuple[list[str], list[int]]:
    """The words as they were typed, where the tokenizer kept as many of them; else as it gives them back."""
    typed, kept = text.split(), translator.tokenizer.decode(ids).split()
    return typed if len(typed) == len(kept) else kept, translator.tokenizer.word_index(ids)


def _array(values: Tensor) -> np.ndarray:
    return values.float().cpu().numpy()


def _layer(path: str) -> int:
    """The number in `decoder.layers.3.attention`; 0 where there is none."""
    return next((int(part) for part in reversed(path.split(".")) if part.isdecimal()), 0)


def _attention(modules: dict[str, nn.Module], seen: Seen) -> list[Attention]:
    found = []
    for told, calls in seen.items():
        path, _, what = told.rpartition(".")
        module = modules[path]
        if not isinstance(module, AttentionLayer) or what != "weights":
            continue
        kind = CROSS if path.endswith("cross_attention") else READING if path.startswith("encoder.") else WRITING
        # A layer that is used several times tells the heads of all times side by side.
        heads = int(getattr(module, "heads", 1))
        times = torch.cat(calls, 1)[0].split(heads)
        found += [Attention(path, kind, _layer(path) + time, _array(weights)) for time, weights in enumerate(times)]
    return found


def _gates(modules: dict[str, nn.Module], seen: Seen, lengths: dict[str, int]) -> list[Gates]:
    found: dict[str, Gates] = {}
    for told, calls in seen.items():
        path, _, what = told.rpartition(".")
        if not isinstance(modules[path], Cell):
            continue
        if path not in found:
            home, _, place = path.rpartition(".cells.")
            stack = modules[home]
            assert isinstance(stack, Recurrence)
            layer, direction = divmod(int(place), stack.directions)
            side = READING if path.startswith("encoder.") else WRITING
            found[path] = Gates(path, side, layer, stack.backwards or direction == 1, {})
        found[path].values[what] = _array(torch.cat(calls, -2)[0, : lengths[found[path].side]])
    return list(found.values())


def _ponder(modules: dict[str, nn.Module], seen: Seen) -> list[Ponder]:
    return [
        Ponder(
            path,
            READING if path.startswith("encoder.") else WRITING,
            _array(seen[f"{path}.ponder"][0][0, :, 0]),
            _array(seen[f"{path}.shares"][0][0]),
        )
        for path, module in modules.items()
        if isinstance(module, Halting) and f"{path}.ponder" in seen
    ]


def _positions(modules: dict[str, nn.Module], count: int, device: torch.device) -> list[Positions]:
    """Vectors that several modules have alike are told once."""
    found: list[Positions] = []
    for path, module in modules.items():
        if path.rpartition(".")[2] != "position" or isinstance(module, NoPosition):
            continue
        limit = getattr(module, "limit", None)
        places = torch.arange(count if limit is None else min(count, limit), device=device)
        values = _array(module(places))
        same = [one for one in found if np.array_equal(one.values, values)]
        if same:
            same[0].paths.append(path)
        else:
            found.append(Positions([path], type(module).__module__.rpartition(".")[2], values))
    return found


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
