"""BLEU and chrF by sacrebleu with their signatures, and a paired bootstrap test of two systems.

Takes lists of plain, detokenised text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.errors import UserError, suggestion

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

MOSES = "moses"
TOKENIZERS = ("13a", "intl", "char", "zh", "none", MOSES)
"""The tokenizers of sacrebleu that need no download and no other package; `none` is for tokenised text. `moses` is the
tokenizer that many papers report BLEU with, from the optional package sacremoses."""


@dataclass(frozen=True)
class Scores:
    """BLEU and chrF of a corpus, 0 to 100, each with its sacrebleu signature."""

    bleu: float
    chrf: float
    bleu_signature: str
    chrf_signature: str


@dataclass(frozen=True)
class Comparison:
    """Two systems on the same sentences by one metric, and the significance of their difference."""

    first: float
    second: float
    first_interval: tuple[float, float]
    """95 % confidence interval of the bootstrap."""
    second_interval: tuple[float, float]
    wins: float
    """Share of bootstrap samples in which the second system is better; ties count half."""
    p_value: float
    signature: str

    @property
    def significant(self) -> bool:
        return self.p_value < 0.05


def corpus_scores(
    outputs: Sequence[str],
    references: Sequence[str],
    *,
    lowercase: bool = False,
    tokenize: str = "13a",
    language: str = "",
) -> Scores:
    """Corpus-level scores, not means over sentences. `tokenize` is for BLEU; chrF has no tokens.

    `language` is that of the outputs, for `tokenize="moses"`.
    """
    check_lengths(outputs, references)
    bleu, chrf = _metrics(lowercase, tokenize).values()
    tokenized = bleu_tokenizer(tokenize, language)
    return Scores(
        bleu=bleu.corpus_score(tokenized(outputs), [tokenized(references)]).score,
        chrf=chrf.corpus_score(outputs, [references]).score,
        bleu_signature=_signature(bleu, tokenize, language),
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
    language: str = "",
) -> dict[str, Comparison]:
    """Paired bootstrap (Koehn 2004) for `bleu` and `chrf`, with the p-values of `sacrebleu --paired-bs` for that seed.

    One departure: equal scores have p = 1, where sacrebleu prints the smallest possible p.
    """
    check_lengths(first, references)
    check_lengths(second, references)
    if samples < 1:
        raise UserError(f"the bootstrap needs at least 1 sample, not {samples}")
    found = {}
    tokenized = bleu_tokenizer(tokenize, language)
    for name, metric in _metrics(lowercase, tokenize).items():
        sides = [tokenized(texts) if name == "bleu" else texts for texts in (first, second, references)]
        # Statistics per sentence (N, counts) are additive, so the score of a sample needs no text.
        counts = [np.array(metric._extract_corpus_statistics(side, [sides[2]])) for side in sides[:2]]
        whole = [metric._compute_score_from_stats(side.sum(0)).score for side in counts]
        random = np.random.default_rng(seed)
        drawn = np.empty((samples, 2))
        for row in drawn:
            chosen = random.choice(len(references), size=len(references))
            row[:] = [metric._compute_score_from_stats(side[chosen].sum(0)).score for side in counts]
        difference = abs(whole[1] - whole[0])
        by_chance = np.abs(drawn[:, 1] - drawn[:, 0])
        greater = int((by_chance - by_chance.mean() > difference).sum())
        signature = _signature(metric, tokenize, language, seed=str(seed), bs=samples)
        found[name] = Comparison(
            first=whole[0],
            second=whole[1],
            first_interval=_interval(drawn[:, 0]),
            second_interval=_interval(drawn[:, 1]),
            wins=float((drawn[:, 1] > drawn[:, 0]).mean() + 0.5 * (drawn[:, 1] == drawn[:, 0]).mean()),
            p_value=(greater + 1) / (samples + 1) if difference else 1.0,
            signature=signature,
        )
    return found


def _metrics(lowercase: bool, tokenize: str) -> dict[str, Metric]:
    if tokenize not in TOKENIZERS:
        raise UserError(f"BLEU has no tokenizer '{tokenize}'{suggestion(tokenize, TOKENIZERS)}")
    tokenize = "none" if tokenize == MOSES else tokenize
    # `force` silences the warning about tokenised text, which `none` is for.
    from sacrebleu.metrics import BLEU, CHRF  # imported here, since translating does not need it

    return {"bleu": BLEU(lowercase=lowercase, tokenize=tokenize, force=True), "chrf": CHRF(lowercase=lowercase)}


def bleu_tokenizer(tokenize: str, language: str) -> Callable[[Sequence[str]], Sequence[str]]:
    """The tokenization before sacrebleu: none, or Moses'. A missing language or package is refused here, so that a
    caller can check before minutes of translation."""
    if tokenize != MOSES:
        return lambda texts: texts
    if not language:
        raise UserError(
            "--tokenize moses needs the language of the translations, which this model does not state; "
            "export it with --from and --to, then evaluate that"
        )
    try:
        from sacremoses import MosesTokenizer
    except ImportError:
        raise UserError("--tokenize moses needs the package sacremoses; type: pip install 'regard[moses]'") from None
    moses = MosesTokenizer(lang=language)
    return lambda texts: [moses.tokenize(text, return_str=True, escape=False) for text in texts]


def _signature(metric: Metric, tokenize: str, language: str, **more: Any) -> str:
    signature = metric.get_signature()
    for name, value in more.items():
        signature.update(name, value)
    return str(signature).replace("tok:none", f"tok:moses-{language}") if tokenize == MOSES else str(signature)


def check_lengths(outputs: Sequence[str], references: Sequence[str]) -> None:
    """Refuses lists of different lengths, and empty ones."""
    if len(outputs) != len(references):
        raise UserError(f"{len(outputs)} outputs but {len(references)} references; each line needs its own")
    if not references:
        raise UserError("nothing to score: there are no lines")


def _interval(scores: np.ndarray) -> tuple[float, float]:
    low, high = np.quantile(scores, [0.025, 0.975])
    return float(low), float(high)
