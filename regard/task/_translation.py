"""The result and the options of a translation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypedDict

from regard.confidence.words import Word, joined_words, lowest
from regard.decoding.cancellation import Cancelled
from regard.errors import UserError

if TYPE_CHECKING:
    import numpy as np

    from regard.checks import Finding
    from regard.glossary import Glossary
    from regard.minimum_bayes_risk import MinimumBayesRisk
    from regard.reranking import Reranker
    from regard.translation_memory import Match, TranslationMemory


@dataclass
class Translation:
    """One translation; `str()` gives its text."""

    source: str
    text: str
    score: float = 0.0
    """Log-probability after the length penalty, by which translations of one sentence are ranked."""
    log_probability: float = 0.0
    tokens: list[str] = field(default_factory=list)
    alignment: list[tuple[int, int]] | None = None
    """(source word, target word) pairs, indices of words separated by spaces; None if not requested."""
    attention: np.ndarray | None = field(default=None, repr=False, compare=False)
    """The attention that the alignment is derived from, (target words, source words)."""
    finished: bool = True
    """False if the length limit cut it off."""
    alternatives: list[Translation] = field(default_factory=list)
    matches: list[Match] = field(default_factory=list)
    """What a translation memory has for the text or its sentences: (source, target, similarity)."""
    confidence: float | None = None
    """The probability that it is right, 0 to 1 (docs/doubt.md); None if not requested."""
    words: list[Word] = field(default_factory=list)
    """The words of the text with their confidences, if requested."""
    warnings: list[Finding] = field(default_factory=list)
    """What speaks against the translation, if `doubt` was requested."""

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """In a notebook: the alignment where it was asked for, else the text."""
        from regard.inspection.draw.heatmap import matrix_svg
        from regard.inspection.draw.style import safe

        words = self.source.split(), self.text.split()
        if self.attention is None or self.attention.shape != (len(words[1]), len(words[0])):
            return f'<p dir="auto">{safe(self.text)}</p>'
        return matrix_svg(self.attention, *words)


class TranslationOptions(TypedDict, total=False):
    """The keywords of `Translator.translate`."""

    source: str | None
    """The language of the texts. A model for several detects that of each text, if it is not given."""
    target: str | None
    """The language to translate to; needed if the model has several."""
    beam: int | None
    """Beam width, 1 to 1000; 1 is greedy. Defaults to the recipe's."""
    n_best: int
    """Translations per text, 1 to 1000: the best one, with the others as its `alternatives`."""
    length_penalty: float | None
    """0 favours short translations, 1 long ones; 0 to 10."""
    coverage_penalty: float | None
    """How much source tokens without enough attention cost; 0 to 10. Defaults to the recipe's."""
    beam_groups: int | None
    """Groups of beams that avoid each other's tokens; they divide the beam. Defaults to the recipe's."""
    diversity_penalty: float | None
    """What a token costs for each beam of an earlier group that chose it. Defaults to the recipe's."""
    temperature: float | None
    """Below 1 safer, above 1 bolder; 0.01 to 100. This, `top_k` or `top_p` draws translations instead of searching for
    the likeliest; the `n_best` samples are in the order they were drawn."""
    top_k: int | None
    """Sample from the k most probable tokens only; 0 means all."""
    top_p: float | None
    """Sample from the fewest tokens whose probabilities add up to this (nucleus sampling)."""
    seed: int | None
    """Seed of the first sample, 0 by default; each further one has the next. It is the same for every text."""
    prefix: str
    """How each translation begins; its probability counts in the score."""
    max_length: int | None
    """Most tokens of a translation, 1 to 10,000."""
    batch_tokens: int | None
    """Tokens per batch."""
    alignment: bool
    """Whether to align source and target words."""
    warn: Callable[[str], None] | None
    """Called with a message for each text that was too long and was split."""
    progress: Callable[[int], None] | None
    """Called with the number of texts (or parts of long ones) finished since the last call."""
    glossary: Glossary | Sequence[Glossary] | None
    """How terms must or should be translated (`Glossary.read`); one for all texts, or one for each."""
    mbr: MinimumBayesRisk | None
    """Take the candidate that is most like all others."""
    rerank: Reranker | None
    """Rank the hypotheses by further models, too."""
    memory: TranslationMemory | None
    """Translations that are used where the text is the same, and leant on where it is similar."""
    doubt: bool
    """Whether to say how likely the translation and each of its words is right, and what speaks against it."""
    cancelled: Cancelled | None
    """Called between steps; returns the indices of cancelled texts."""


def joined(source: str, parts: list[Translation]) -> Translation:
    """One translation of a text that was split. Its alternatives join the parts' second best, third best, ..."""
    if not parts:
        return Translation(source, "")
    if len(parts) == 1:
        return replace(parts[0], source=source)
    matrices = [part.attention for part in parts if part.attention is not None]
    return Translation(
        source,
        " ".join(part.text for part in parts),
        sum(part.score for part in parts),
        sum(part.log_probability for part in parts),
        [token for part in parts for token in part.tokens],
        list(_shifted(parts)) if parts[0].alignment is not None else None,
        _block_diagonal(matrices) if matrices else None,
        all(part.finished for part in parts),
        [joined(source, list(row)) for row in zip(*(part.alternatives for part in parts))],
        [match for part in parts for match in part.matches],
        lowest(part.confidence for part in parts),
        joined_words([(part.text, part.words) for part in parts]),
    )


def _block_diagonal(matrices: list[np.ndarray]) -> np.ndarray:
    """No word attends to another part."""
    import numpy as np

    rows, columns = np.cumsum([(0, 0), *(matrix.shape for matrix in matrices)], axis=0).T
    whole = np.zeros((rows[-1], columns[-1]), np.float32)
    for i, matrix in enumerate(matrices):
        whole[rows[i] : rows[i + 1], columns[i] : columns[i + 1]] = matrix
    return whole


def _shifted(parts: list[Translation]) -> Iterator[tuple[int, int]]:
    """The alignments of the parts, with words counted over the whole text."""
    source = target = 0
    for part in parts:
        yield from ((s + source, t + target) for s, t in part.alignment or [])
        source, target = source + len(part.source.split()), target + len(part.text.split())


def check_options(
    beam: int, n_best: int, length_penalty: float | None, max_length: int | None, batch_tokens: int | None
) -> None:
    if not 1 <= beam <= 1000 or not 1 <= n_best <= 1000:
        raise UserError(f"beam and n-best must lie between 1 and 1000, not {beam} and {n_best}")
    if length_penalty is not None and not 0 <= length_penalty <= 10:
        raise UserError(f"length penalty must lie between 0 and 10, not {length_penalty}")
    if max_length is not None and not 1 <= max_length <= 10000:
        raise UserError(f"max-length must lie between 1 and 10000, not {max_length}")
    if batch_tokens is not None and batch_tokens < 1:
        raise UserError(f"batch-tokens must be at least 1, not {batch_tokens}")
