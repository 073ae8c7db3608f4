"""What is taken of what a search finds: minimum Bayes risk, reranking, a translation memory. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from regard.directions import directions
from regard.errors import UserError
from regard.hypothesis import Hypothesis
from regard.task._translation import Translation

if TYPE_CHECKING:
    from regard.directions import Marks
    from regard.minimum_bayes_risk import MinimumBayesRisk
    from regard.reranking import Reranker
    from regard.task._base_translator import BaseTranslator
    from regard.task._search_variant import SearchVariant
    from regard.translation_memory import TranslationMemory

TOP_P = 0.7
"""Samples are drawn from the fewest tokens with this probability: label smoothing leaves the others too much."""
DRAWN = ("temperature", "top_k", "top_p")


@dataclass(frozen=True)
class Choosing:
    """What `translate` was asked for; by default it takes what the search finds best."""

    mbr: MinimumBayesRisk | None = None
    rerank: Reranker | None = None
    memory: TranslationMemory | None = None

    def __post_init__(self) -> None:
        if self.mbr and self.rerank:
            raise UserError("minimum Bayes risk and reranking both choose the translation; leave out one of them")

    def with_sampling(self, further: dict[str, Any]) -> dict[str, Any]:
        """The options of the search. Minimum Bayes risk draws its candidates, unless they are those of a beam."""
        drawn = [name for name in DRAWN if further.get(name) is not None]
        if self.mbr and self.mbr.origin == "beam" and drawn:
            raise UserError(f"minimum Bayes risk takes the candidates of a beam; leave out {drawn[0]}")
        return {**further, "top_p": TOP_P} if self.mbr and self.mbr.origin == "samples" and not drawn else further

    def check(self, variant: SearchVariant | None, prefix: str) -> None:
        if self.memory and (variant or prefix):
            raise UserError("a memory goes with plain beam search; leave out sampling, other searches and the prefix")

    def candidates(self, n_best: int) -> int:
        """Hypotheses to search for."""
        return max(n_best, self.mbr.candidates if self.mbr else self.rerank.candidates if self.rerank else 1)

    def is_exact(self, text: str) -> bool:
        return self.memory is not None and self.memory.exact(text) is not None

    def exact(self, text: str, translator: BaseTranslator, alignment: bool) -> Translation | None:
        """The translation of the memory as it is, if it has this very text; nothing in it is aligned."""
        if self.memory is None or (match := self.memory.exact(text)) is None:
            return None
        tokenizer, matrix = translator.tokenizer.target, None
        if alignment:
            import numpy as np

            matrix = np.zeros((len(match.target.split()), len(text.split())), np.float32)
        pieces = tokenizer.pieces(tokenizer.encode(match.target))
        links: list[tuple[int, int]] | None = [] if alignment else None
        return Translation(text, match.target, 0.0, 0.0, pieces, links, matrix, matches=[match])

    def neighbours(
        self, translator: BaseTranslator, texts: Sequence[str], told: Sequence[Marks]
    ) -> list[list[tuple[list[int], str]]] | None:
        """The pairs that the translation of each text may lean on, with the tokens of the source."""
        if self.memory is None:
            return None
        return [
            [(translator.encode(one.source, marks), one.target) for one in self.memory.neighbours(text)]
            for text, marks in zip(texts, told, strict=True)
        ]

    def with_matches(self, translation: Translation) -> Translation:
        return replace(translation, matches=self.memory.matches(translation.source)) if self.memory else translation

    def ranked(
        self,
        recipe: Any,
        texts: Sequence[str],
        found: Sequence[list[Hypothesis]],
        decode: Callable[[Hypothesis], str],
        languages: tuple[str | None, str | None],
        n_best: int,
    ) -> list[list[Hypothesis]]:
        """The best of the candidates of each text; their scores are those that they are ranked by."""
        written = [[decode(one) for one in some] for some in found]
        ranked = [list(some) for some in found]
        if self.mbr:
            ranked = [
                [replace(some[number], score=mean / 100) for number, mean in self.mbr.rank(candidates)]
                for some, candidates in zip(found, written, strict=True)
            ]
        elif self.rerank:
            stated = directions(recipe)
            gains = self.rerank.scores(texts, written, *(stated[0] if len(stated) == 1 else languages))
            for some, gained in zip(ranked, gains, strict=True):
                some[:] = [replace(one, score=one.score + gain) for one, gain in zip(some, gained, strict=True)]
                some.sort(key=lambda one: -one.score)
        return [some[:n_best] for some in ranked]
