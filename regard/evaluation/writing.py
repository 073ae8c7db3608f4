"""How good texts are of which several would be right, and how many words of a transcript are wrong."""

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
    # Captions are often tokenised already, with a space before the full stop: of that sacreBLEU would warn each time.
    return BLEU(lowercase=lowercase, force=True).corpus_score(list(outputs), columns).score


def word_errors(output: Sequence[str], wanted: Sequence[str]) -> int:
    """The fewest words to put in, take out or exchange (Levenshtein)."""
    row = list(range(len(output) + 1))
    for i, word in enumerate(wanted, 1):
        before, row[0] = row[0], i
        for j, other in enumerate(output, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (word != other))
    return row[-1]


def word_error_rate(outputs: Sequence[str], references: Sequence[str]) -> float:
    """Wrong words of a hundred wanted ones, over the whole corpus; more than a hundred where too much was written."""
    pairs = [(output.split(), wanted.split()) for output, wanted in zip(outputs, references, strict=True)]
    return 100 * sum(word_errors(*pair) for pair in pairs) / max(1, sum(len(wanted) for _, wanted in pairs))
