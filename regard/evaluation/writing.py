"""BLEU-4 against several references (captions), and the word error rate (transcripts)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sacrebleu.metrics import BLEU

from regard.errors import UserError


def bleu4(outputs: Sequence[str], references: Sequence[Sequence[str]], lowercase: bool = True) -> float:
    """BLEU of up to four words, 0 to 100, against several references each (sacreBLEU, 13a)."""
    if not outputs or len(outputs) != len(references) or not all(references):
        raise UserError(f"{len(outputs)} outputs but {sum(map(bool, references))} have references; each needs its own")
    most = max(map(len, references))
    columns: list[Any] = [[refs[i] if i < len(refs) else None for refs in references] for i in range(most)]
    # `force` silences the warning about tokenised text: captions often have a space before the full stop.
    return BLEU(lowercase=lowercase, force=True).corpus_score(list(outputs), columns).score


def word_errors(output: Sequence[str], reference: Sequence[str]) -> int:
    """The fewest insertions, deletions and substitutions of words (Levenshtein distance)."""
    row = list(range(len(output) + 1))
    for i, word in enumerate(reference, 1):
        before, row[0] = row[0], i
        for j, other in enumerate(output, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (word != other))
    return row[-1]


def word_error_rate(outputs: Sequence[str], references: Sequence[str]) -> float:
    """Word errors per hundred reference words, over the whole corpus; above 100 if too much was written."""
    pairs = [(output.split(), reference.split()) for output, reference in zip(outputs, references, strict=True)]
    return 100 * sum(word_errors(*pair) for pair in pairs) / max(1, sum(len(reference) for _, reference in pairs))
