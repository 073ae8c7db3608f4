"""BLEU and chrF by sacrebleu, with the signatures that make them comparable, and a paired bootstrap of two systems.

Works on plain, detokenised text. Knows nothing of models: two lists of strings come in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from regard.errors import UserError, suggestion

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

TOKENIZERS = ("13a", "intl", "char", "zh", "none")
"""Those of sacrebleu's that need no download and no other package; `none` is for text that is already tokenised."""


@dataclass(frozen=True)
class Scores:
    """BLEU and chrF of a corpus, 0 to 100, each with the signature to print beside it."""

    bleu: float
    chrf: float
    bleu_signature: str
    chrf_signature: str


@dataclass(frozen=True)
class Comparison:
    """Two systems on the same sentences by one metric, and how often chance would make such a difference."""

    first: float
    second: float
    first_interval: tuple[float, float]
    """Where 95 % of the bootstrap's scores lie."""
    second_interval: tuple[float, float]
    wins: float
    """The share of the bootstrap samples in which the second system is the better one; ties count half."""
    p_value: float
    signature: str

    @property
    def significant(self) -> bool:
        return self.p_value < 0.05


def corpus_scores(
    outputs: Sequence[str], references: Sequence[str], *, lowercase: bool = False, tokenize: str = "13a"
) -> Scores:
    """Scores the whole corpus (not the mean of its sentences). `tokenize` concerns BLEU; chrF has no tokens."""
    _check(outputs, references)
    bleu, chrf = _metrics(lowercase, tokenize).values()
    return Scores(
        bleu=bleu.corpus_score(outputs, [references]).score,
        chrf=chrf.corpus_score(outputs, [references]).score,
        bleu_signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
    )


def compare(
    first: Sequence[str],
    second: Sequence[str],
    references: Sequence[str],
    *,
    samples: int = 1000,
    seed: int = 12345,
    lowercase: bool = False,
    tokenize: str = "13a",
) -> dict[str, Comparison]:
    """Paired bootstrap (Koehn 2004) by `bleu` and `chrf`: the p-values `sacrebleu --paired-bs` prints for that seed.

    One departure: equal scores have p = 1, where sacrebleu prints the smallest p there is.
    """
    _check(first, references)
    _check(second, references)
    if samples < 1:
        raise UserError(f"the bootstrap needs at least 1 sample, not {samples}")
    found = {}
    for name, metric in _metrics(lowercase, tokenize).items():
        # Counts a sentence, (N, counts). They add up, so a sample's score needs no text.
        counts = [np.array(metric._extract_corpus_statistics(side, [references])) for side in (first, second)]
        whole = [metric._compute_score_from_stats(side.sum(0)).score for side in counts]
        random = np.random.default_rng(seed)
        drawn = np.empty((samples, 2))
        for row in drawn:
            chosen = random.choice(len(references), size=len(references))
            row[:] = [metric._compute_score_from_stats(side[chosen].sum(0)).score for side in counts]
        difference = abs(whole[1] - whole[0])
        by_chance = np.abs(drawn[:, 1] - drawn[:, 0])
        greater = int((by_chance - by_chance.mean() > difference).sum())
        signature = metric.get_signature()
        signature.update("seed", str(seed))
        signature.update("bs", samples)
        found[name] = Comparison(
            first=whole[0],
            second=whole[1],
            first_interval=_interval(drawn[:, 0]),
            second_interval=_interval(drawn[:, 1]),
            wins=float((drawn[:, 1] > drawn[:, 0]).mean() + 0.5 * (drawn[:, 1] == drawn[:, 0]).mean()),
            p_value=(greater + 1) / (samples + 1) if difference else 1.0,
            signature=str(signature),
        )
    return found


def _metrics(lowercase: bool, tokenize: str) -> dict[str, Metric]:
    if tokenize not in TOKENIZERS:
        raise UserError(f"BLEU has no tokenizer '{tokenize}'{suggestion(tokenize, TOKENIZERS)}")
    # `force` only silences the advice not to score tokenised text: the caller who says `none` means it.
    from sacrebleu.metrics import BLEU, CHRF  # here: whoever only translates need not wait for it

    return {"bleu": BLEU(lowercase=lowercase, tokenize=tokenize, force=True), "chrf": CHRF(lowercase=lowercase)}


def _check(outputs: Sequence[str], references: Sequence[str]) -> None:
    if len(outputs) != len(references):
        raise UserError(f"{len(outputs)} outputs but {len(references)} references; each line needs its own")
    if not references:
        raise UserError("nothing to score: there are no lines")


def _interval(scores: np.ndarray) -> tuple[float, float]:
    low, high = np.quantile(scores, [0.025, 0.975])
    return float(low), float(high)
