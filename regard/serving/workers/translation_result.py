"""Search options and translation results as they travel between the HTTP process and a worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from regard.confidence.words import Word, joined_words, lowest
from regard.errors import UserError

MAX_ATTENTION_WEIGHTS = 100_000
"""Attention weights in one answer, summed over its texts and hypotheses."""


@dataclass(frozen=True)
class SearchOptions:
    """Options of beam search; None means the value in the model's recipe."""

    beam: int | None = None
    n_best: int = 1
    length_penalty: float | None = None
    max_length: int | None = None
    alignment: bool = False
    attention: bool = False
    doubt: bool = False
    source: str | None = None
    target: str | None = None
    """The direction, for a model with several (catalogue.Step.options)."""
    glossary: tuple[tuple[str, str, str], ...] = ()
    """The rows of a glossary (`Glossary.rows`)."""

    def effort(self) -> float:
        """Cost per character relative to the default beam width of 4."""
        return max(1.0, max(self.beam or 1, self.n_best) / 4)


@dataclass
class TranslationResult:
    """The best hypothesis, and the others as `alternatives`."""

    text: str
    score: float = 0.0
    log_probability: float = 0.0
    tokens: list[str] = field(default_factory=list)
    finished: bool = True
    alignment: list[tuple[int, int]] | None = None
    attention: list[list[float]] | None = None
    alternatives: list[TranslationResult] = field(default_factory=list)
    confidence: float | None = None
    words: list[Word] | None = None
    """With confidences; None if not requested."""
    warnings: list[tuple[str, str]] = field(default_factory=list)
    """Pairs of a check and what it found."""

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> TranslationResult:
        links = tree["alignment"]
        return cls(
            **{
                **tree,
                "alignment": None if links is None else [(a, b) for a, b in links],
                "alternatives": [cls.from_tree(other) for other in tree["alternatives"]],
                "words": [Word(*one) for one in words] if (words := tree.get("words")) is not None else None,
                "warnings": [(check, message) for check, message in tree.get("warnings", ())],
            }
        )


def check_attention_size(count: int) -> None:
    if count > MAX_ATTENTION_WEIGHTS:
        raise UserError(
            f"attention: {count:,} weights exceed the limit of {MAX_ATTENTION_WEIGHTS:,}; send less text, "
            "or ask for a lower n_best"
        )


def joined_attention_size(parts: Sequence[TranslationResult]) -> int:
    """Attention weights in the result of `join`, including the zeros between parts and the alternatives."""
    own = [part.attention for part in parts if part.attention]
    return sum(map(len, own)) * sum(len(matrix[0]) for matrix in own) + sum(
        joined_attention_size(row) for row in zip(*(part.alternatives for part in parts))
    )


def join(sources: Sequence[str], parts: Sequence[TranslationResult], search: SearchOptions) -> TranslationResult:
    """Joins the translations of a text's parts, as `Translator.translate` does."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return TranslationResult(
            "",
            alignment=[] if search.alignment else None,
            attention=[] if search.attention else None,
            words=[] if search.doubt else None,
        )
    return TranslationResult(
        " ".join(part.text for part in parts),
        sum(part.score for part in parts),
        sum(part.log_probability for part in parts),
        [token for part in parts for token in part.tokens],
        all(part.finished for part in parts),
        _joined_alignment(sources, parts) if search.alignment else None,
        _block_diagonal([part.attention for part in parts if part.attention]) if search.attention else None,
        [join(sources, row, search) for row in zip(*(part.alternatives for part in parts))],
        lowest(part.confidence for part in parts),
        joined_words([(part.text, part.words or ()) for part in parts]) if search.doubt else None,
        [warning for part in parts for warning in part.warnings],
    )


def _joined_alignment(sources: Sequence[str], parts: Sequence[TranslationResult]) -> list[tuple[int, int]]:
    links: list[tuple[int, int]] = []
    source = target = 0
    for text, part in zip(sources, parts, strict=True):
        links += ((s + source, t + target) for s, t in part.alignment or ())
        source, target = source + len(text.split()), target + len(part.text.split())
    return links


def _block_diagonal(blocks: Sequence[list[list[float]]]) -> list[list[float]]:
    """One matrix of all parts, like `torch.block_diag`: no word attends to another part."""
    widths = [len(block[0]) for block in blocks]
    rows, before = [], 0
    for block, width in zip(blocks, widths):
        after = sum(widths) - before - width
        rows += [[0.0] * before + row + [0.0] * after for row in block]
        before += width
    return rows
