"""Candidates of each sentence, and which of them is taken: minimum Bayes risk, reranking, a translation memory.

Works on the sentences of one call of `translate`. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from regard.directions import directions
from regard.errors import UserError
from regard.hypothesis import Hypothesis

if TYPE_CHECKING:
    from regard.directions import Marks
    from regard.minimum_bayes_risk import MinimumBayesRisk
    from regard.reranking import Reranker
    from regard.task._base_translator import BaseTranslator, Progress
    from regard.task._translation import Translation
    from regard.translation_memory import Match, TranslationMemory


@dataclass(frozen=True)
class Choosing:
    """What `translate` was asked for, besides a search."""

    mbr: MinimumBayesRisk | None = None
    rerank: Reranker | None = None
    memory: TranslationMemory | None = None

    def __post_init__(self) -> None:
        if self.mbr and self.rerank:
            raise UserError("minimum Bayes risk and reranking both choose the translation; leave out one of them")
        if self.mbr and self.mbr.origin == "samples" and self.memory:
            raise UserError("samples are drawn without a memory; take the candidates of minimum Bayes risk from beam")

    def is_exact(self, text: str) -> bool:
        return self.memory is not None and self.memory.exact(text) is not None


@dataclass
class Candidates:
    """The hypotheses of each sentence, best first, and what the memory has for it."""

    found: list[list[Hypothesis]]
    matches: dict[int, list[Match]] = field(default_factory=dict)
    exact: dict[int, Match] = field(default_factory=dict)

    def completed(self, number: int, made: Translation, tokenizer: Any) -> Translation:
        """The translation of a sentence with its matches; that of an exact match is the one of the memory."""
        if one := self.exact.get(number):
            tokens = tokenizer.pieces(tokenizer.encode(one.target))
            attention = made.attention
            if attention is not None:
                import numpy as np

                attention = np.zeros((len(one.target.split()), len(made.source.split())), np.float32)
            return replace(made, text=one.target, tokens=tokens, attention=attention, matches=[one])
        return replace(made, matches=self.matches.get(number, []))


def candidates(
    translator: BaseTranslator,
    choosing: Choosing,
    texts: Sequence[str],
    sources: Sequence[list[int]],
    told: Sequence[Marks],
    languages: tuple[str | None, str | None],
    options: dict[str, Any],
    progress: Progress | None,
) -> Candidates:
    """Searches, and ranks what was found. `texts` are the sentences, `sources` their tokens."""
    mbr, rerank, memory = choosing.mbr, choosing.rerank, choosing.memory
    wanted, prefix = options["n_best"], options["prefix"]
    most = max(wanted, mbr.candidates if mbr else rerank.candidates if rerank else 1)
    options = {**options, "n_best": most, "progress": progress}
    result = Candidates([[Hypothesis(list(prefix), 0.0, 0.0)] for _ in texts])
    if memory:
        result.matches = {number: memory.matches(text) for number, text in enumerate(texts)}
        for number, text in enumerate(texts):
            if (target := memory.exact(text)) is not None:
                result.exact[number] = memory.match(text, target)
    rest = [number for number in range(len(texts)) if number not in result.exact]
    if (cancelled := options["cancelled"]) is not None:
        options["cancelled"] = lambda: {place for place, number in enumerate(rest) if number in cancelled()}
    searched = [sources[number] for number in rest]
    if mbr and mbr.origin == "samples":
        found = translator.search_samples(searched, count=most, seed=mbr.seed, **options)
    elif memory:
        pairs = [
            [(translator.encode(one.source, told[number]), one.target) for one in memory.neighbours(texts[number])]
            for number in rest
        ]
        found = translator.search_with_memory(searched, pairs, **options)
    else:
        found = translator.search(searched, **options)
    if progress and result.exact:
        progress(len(result.exact))
    decode = translator.tokenizer.target.decode
    written = [[decode(one.ids[len(prefix) :]).strip() for one in some] for some in found]
    if mbr:
        found = [[replace(some[n], score=mean / 100) for n, mean in mbr.rank(w)] for some, w in zip(found, written)]
    if rerank:
        stated = directions(translator.recipe)
        start, to = stated[0] if len(stated) == 1 else languages
        gains = rerank.scores([texts[number] for number in rest], written, start, to)
        for some, gained in zip(found, gains, strict=True):
            ranked = [replace(one, score=one.score + gain) for one, gain in zip(some, gained, strict=True)]
            some[:] = sorted(ranked, key=lambda one: -one.score)
    for number, some in zip(rest, found, strict=True):
        result.found[number] = some[:wanted]
    return result
