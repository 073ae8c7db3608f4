"""A translation as it travels between the HTTP process and a worker: how it is searched for, and what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from regard.errors import UserError

MOST_WEIGHTS = 100_000
"""Attention weights in one answer, over all its texts and hypotheses."""


@dataclass(frozen=True)
class Search:
    """How a translation is searched for; None means what the model's recipe says."""

    beam: int | None = None
    n_best: int = 1
    length_penalty: float | None = None
    max_length: int | None = None
    alignment: bool = False
    attention: bool = False

    def effort(self) -> float:
        """What a character costs, compared with the usual beam width of 4."""
        return max(1.0, max(self.beam or 1, self.n_best) / 4)


@dataclass
class Translated:
    text: str
    score: float = 0.0
    log_probability: float = 0.0
    tokens: list[str] = field(default_factory=list)
    finished: bool = True
    alignment: list[tuple[int, int]] | None = None
    attention: list[list[float]] | None = None
    alternatives: list[Translated] = field(default_factory=list)

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> Translated:
        links = tree["alignment"]
        return cls(
            **{
                **tree,
                "alignment": None if links is None else [(a, b) for a, b in links],
                "alternatives": [cls.from_tree(other) for other in tree["alternatives"]],
            }
        )


def check_weights(count: int) -> None:
    if count > MOST_WEIGHTS:
        raise UserError(
            f"attention: {count:,} weights, {MOST_WEIGHTS:,} are the most; send less text, or ask for a lower n_best"
        )


def joined_weights(parts: Sequence[Translated]) -> int:
    """Attention weights in what `join` makes of the parts, zeros between them and alternatives included."""
    own = [part.attention for part in parts if part.attention]
    return sum(map(len, own)) * sum(len(matrix[0]) for matrix in own) + sum(
        joined_weights(row) for row in zip(*(part.alternatives for part in parts))
    )


def join(sources: Sequence[str], parts: Sequence[Translated], how: Search) -> Translated:
    """One translation of a text whose parts were translated one by one, as `Translator.translate` joins them."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return Translated("", alignment=[] if how.alignment else None, attention=[] if how.attention else None)
    return Translated(
        " ".join(part.text for part in parts),
        sum(part.score for part in parts),
        sum(part.log_probability for part in parts),
        [token for part in parts for token in part.tokens],
        all(part.finished for part in parts),
        _shifted(sources, parts) if how.alignment else None,
        _block_diagonal([part.attention for part in parts if part.attention]) if how.attention else None,
        [join(sources, row, how) for row in zip(*(part.alternatives for part in parts))],
    )


def _shifted(sources: Sequence[str], parts: Sequence[Translated]) -> list[tuple[int, int]]:
    links: list[tuple[int, int]] = []
    source = target = 0
    for text, part in zip(sources, parts, strict=True):
        links += ((s + source, t + target) for s, t in part.alignment or ())
        source, target = source + len(text.split()), target + len(part.text.split())
    return links


def _block_diagonal(blocks: Sequence[list[list[float]]]) -> list[list[float]]:
    """One matrix of all parts, as `torch.block_diag` makes it: no word looks at another part."""
    widths = [len(block[0]) for block in blocks]
    rows, before = [], 0
    for block, width in zip(blocks, widths):
        after = sum(widths) - before - width
        rows += [[0.0] * before + row + [0.0] * after for row in block]
        before += width
    return rows
