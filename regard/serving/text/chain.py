"""Translation through a third language: two steps as one.

Scores, tokens and alternatives are those of the second step, whose source is the best translation of the first, as in
regard/chaining.py. Alignment and attention are the products of those of the two steps: a word of the
text belongs to the words of the translation that it is linked to by a word in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from regard.confidence.words import both
from regard.data.normalise import normalise
from regard.serving.catalogue import Route, Step
from regard.serving.workers.translation_result import SearchOptions, TranslationResult, check_attention_size
from regard.serving.workers.worker_pool import WorkerPool
from regard.text.alignment import AlignedText, Links
from regard.text.word_confidences import Confidences


async def translate_along(
    pool: WorkerPool, route: Route, texts: Sequence[str], search: SearchOptions, owner: str = ""
) -> list[TranslationResult]:
    """One result per text, in order, through all steps of a route."""
    *before, last = route
    if not before:
        return await pool.translate(last.model.name, texts, directed(search, last), owner)
    (first,) = before
    between = await pool.translate(first.model.name, texts, directed(replace(search, n_best=1), first), owner)
    middles = [one.text for one in between]
    found = await pool.translate(last.model.name, middles, directed(search, last), owner)
    made = [_composed(text, one, other) for text, one, other in zip(texts, between, found, strict=True)]
    matrices = (one.attention for each in made for one in (each, *each.alternatives))
    check_attention_size(sum(len(matrix) * len(matrix[0]) for matrix in matrices if matrix))
    return made


def directed(search: SearchOptions, step: Step) -> SearchOptions:
    """The options with the direction of a step, if its model must be told."""
    source, target = step.direction()
    return replace(search, source=source, target=target)


def _composed(text: str, first: TranslationResult, second: TranslationResult) -> TranslationResult:
    return replace(
        second,
        finished=first.finished and second.finished,
        alignment=compose_links(first.alignment, second.alignment),
        attention=_product(first.text, first.attention, second.attention),
        alternatives=[_composed(text, first, other) for other in second.alternatives],
        confidence=both(first.confidence, second.confidence),
        warnings=[*first.warnings, *second.warnings],
    )


def compose(first: AlignedText, second: AlignedText) -> AlignedText:
    """The second translation, aligned with the text that the first one translates."""
    known = second.confidences and Confidences(
        both(first.confidences.whole if first.confidences else None, second.confidences.whole),
        second.confidences.words,
    )
    return AlignedText(second.text, compose_links(first.alignment, second.alignment), known)


def compose_links(first: Links | None, second: Links | None) -> Links | None:
    """The product of two alignments as relations; None if one of them is not known."""
    if first is None or second is None:
        return None
    onwards: dict[int, list[int]] = {}
    for middle, target in second:
        onwards.setdefault(middle, []).append(target)
    return sorted({(source, target) for source, middle in first for target in onwards.get(middle, ())})


def _product(
    between: str, first: list[list[float]] | None, second: list[list[float]] | None
) -> list[list[float]] | None:
    """The product of two attention matrices, (target words, source words). Without rows if the columns of the second
    are not the words between, because its tokenizer does not preserve words."""
    if first is None or second is None:
        return None
    if not first or not second or len(second[0]) != len(first) or len(normalise(between).split()) != len(first):
        return []
    import numpy as np

    found: list[list[float]] = (np.array(second) @ np.array(first)).tolist()
    return found
