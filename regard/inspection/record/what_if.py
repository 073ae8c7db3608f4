"""Record a translation under interventions: search and forward pass with parts switched off, averaged or patched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard.data.batching import pad
from regard.errors import UserError
from regard.inspection.record.interventions import Intervention, intervene, record_activations, with_means
from regard.inspection.record.parts import Part
from regard.inspection.trace.what_if import WhatIf
from regard.layers.capture import capture
from regard.types import BEGIN

if TYPE_CHECKING:
    from regard.inspection.trace.translation import TranslationTrace
    from regard.task.translate import Translator

MOST_PARTS = 1000


@torch.inference_mode()
def what_if(
    translator: Translator,
    source: Sequence[int],
    before: TranslationTrace,
    again: Callable[[str], TranslationTrace],
    without: Sequence[str] = (),
    mean: bool = False,
    patches: Sequence[str] = (),
    other: str = "",
) -> WhatIf:
    """The translation of `source` (the ids that the encoder reads) with parts switched off, and with others patched.

    `again(text)` searches and records anew, with the options of `before`; `mean` puts a part's mean over this sentence
    and its translation in place of zeros. A patch is a part, perhaps with a position and, after "=", the position in
    the other sentence that it comes from: `encoder.1.output@2=4`.
    """
    if len(without) + len(patches) > MOST_PARTS:
        raise UserError(f"{len(without) + len(patches)} parts are too many; at most {MOST_PARTS}")
    if bool(patches) != bool(other.strip()):
        raise UserError("a patch needs both: the part, and the other sentence that its values come from")
    model = translator.model
    fed = [BEGIN, *before.ids[:-1]]
    parts = [Part.parse(name) for name in dict.fromkeys(without)]
    changes = with_means(model, parts, [lambda: _forward(translator, source, fed)], mean)
    other_translation = ""
    if patches:
        donor = again(other)
        other_translation = donor.target.text
        changes += _patches(translator, patches, donor)
    with intervene(model, changes):
        after = again(before.source.text)
        with capture(model):
            logits = _forward(translator, source, fed)
    own = torch.tensor(before.ids, device=logits.device)[:, None]
    rows = logits[0].float()
    return WhatIf(
        without=[str(part) for part in parts],
        by="mean" if mean else "zero",
        patched=list(patches),
        other=other.strip(),
        other_translation=other_translation,
        after=replace(after, positions=[], gates=[], search=[]),
        probabilities=rows.softmax(-1).gather(1, own)[:, 0].tolist(),
        log_probability=float(rows.log_softmax(-1).gather(1, own)[before.given :].sum()),
    )


def _forward(translator: Translator, source: Sequence[int], fed: Sequence[int]) -> Tensor:
    ids, mask = (tensor.to(translator.device) for tensor in pad([list(source)]))
    return translator.model(ids, mask, torch.tensor([list(fed)], device=translator.device))


def _patches(translator: Translator, patches: Sequence[str], donor: TranslationTrace) -> list[Intervention]:
    wanted: list[tuple[Part, int | None]] = []
    for name in patches:
        part_name, equals, place = name.partition("=")
        part = Part.parse(part_name)
        if equals and (part.position is None or not place.isascii() or not place.isdecimal()):
            raise UserError(f"'{name[:60]}' is no patch; write it like encoder.1.output, or encoder.1.output@2=4")
        wanted.append((part, int(place) if equals else part.position))
    parts, fed = [part for part, _ in wanted], [BEGIN, *donor.ids[:-1]]
    with capture(translator.model):  # the same kernels as in the pass that is shown, so equal means equal
        recorded = record_activations(translator.model, parts, lambda: _forward(translator, donor.source_ids, fed))
    found = []
    for part, at in wanted:
        if part not in recorded:
            raise UserError(f"{part}: was never computed for the other sentence")
        values = recorded[part]
        if at is not None:
            if at >= len(values[0]):
                last = len(values[0]) - 1
                raise UserError(f"{part}={at}: the other sentence has the positions 0 to {last} there")
            values = tuple(value[at] for value in values)
        found.append(Intervention(part, values))
    return found
