"""Ablation: the BLEU of a translator without each of its heads or layers, one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.data.batching import pad
from regard.engines.ctranslate2.translator import CTranslate2Translator
from regard.errors import UserError
from regard.evaluation.translation import corpus_scores
from regard.inspection.record.interventions import intervene, with_means
from regard.inspection.record.parts import Part, head_parts, layer_parts
from regard.types import BEGIN, END

if TYPE_CHECKING:
    from regard.task.translate import Translator

AVERAGED = 100
"""Pairs over which means are taken."""


@dataclass
class Ablated:
    """The scores without one part."""

    part: str
    """Its name (record/parts.py); empty for the whole model."""
    bleu: float
    chrf: float
    difference: float
    """BLEU minus that of the whole model."""
    changed: int
    """How many translations differ from those of the whole model."""


def ablate(
    translator: Translator | CTranslate2Translator,
    sources: Sequence[str],
    references: Sequence[str],
    layers: bool = False,
    mean: bool = False,
    progress: Callable[[int], None] | None = None,
    **options: Any,
) -> Iterator[Ablated]:
    """Scores a translator without each of its heads, or layers, one at a time.

    Args:
        translator: A loaded translator.
        sources: The texts to translate.
        references: Their translations.
        layers: Switch off whole layers instead of heads.
        mean: Replace a part by its mean over the first pairs instead of zeros.
        progress: Called with the number of lines translated since the last call.
        options: Those of `Translator.translate`, such as `beam`.

    Returns:
        An iterator over the scores; those of the whole model come first.
    """
    if len(sources) != len(references) or not sources:
        raise UserError(f"{len(sources)} sources but {len(references)} references; each text needs its own")
    # Of one computed by CTranslate2 no part can be switched off.
    own: Translator = translator.with_torch() if isinstance(translator, CTranslate2Translator) else translator
    parts = parts_to_ablate(own, layers)
    language = options.get("target") or own.recipe.target_language

    def scored(name: str) -> tuple[Ablated, list[str]]:
        found = [one.text for one in own.translate(list(sources), progress=progress, **options)]
        scores = corpus_scores(found, list(references), language=language)
        return Ablated(name, scores.bleu, scores.chrf, 0.0, 0), found

    whole, plain = scored("")
    yield whole
    forwards = [partial(_forward, own, *pair) for pair in list(zip(sources, references))[:AVERAGED]]
    with torch.inference_mode():
        changes = with_means(own.model, parts, forwards, mean)
    for change in changes:
        with intervene(own.model, [change]):
            one, found = scored(str(change.part))
        one.difference = one.bleu - whole.bleu
        one.changed = sum(new != old for new, old in zip(found, plain))
        yield one


def parts_to_ablate(translator: Translator, layers: bool) -> list[Part]:
    parts = layer_parts(translator.model) if layers else head_parts(translator.model)
    if not parts:
        raise UserError(f"this model has no {'layers' if layers else 'heads'}" + ("" if layers else "; try --layers"))
    return parts


def _forward(translator: Translator, source: str, reference: str) -> Tensor:
    (told,) = translator.marks([source])
    ids, mask = pad([translator.source_row(translator.encode(source, told))])
    fed = [BEGIN, *told.prefix, *translator.tokenizer.target.encode(reference), END][:-1]
    target = torch.tensor([fed], device=translator.device)
    return translator.model(ids.to(translator.device), mask.to(translator.device), target)
