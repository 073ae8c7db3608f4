"""BLEU and chrF by sacrebleu, with the signatures that make them comparable, and a paired bootstrap of two systems.

Works on plain, detokenised text. Knows nothing of models: two lists of strings come in.
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
"""Those of sacrebleu's that need no download and no other package; `none` is for text that is already tokenised.
`moses` is sacremoses' port of the tokenizer that many papers report BLEU with, an optional package."""


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
    outputs: Sequence[str],
    references: Sequence[str],
    *,
    lowercase: bool = False,
    tokenize: str = "13a",
    language: str = "",
) -> Scores:
    """Scores the whole corpus (not the mean of its sentences). `tokenize` concerns BLEU; chrF has no tokens.

    `language` is the outputs', which `tokenize="moses"` needs.
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
    """Paired bootstrap (Koehn 2004) by `bleu` and `chrf`: the p-values `sacrebleu --paired-bs` prints for that seed.

    One departure: equal scores have p = 1, where sacrebleu prints the smallest p there is.
    """
    check_lengths(first, references)
    check_lengths(second, references)
    if samples < 1:
        raise UserError(f"the bootstrap needs at least 1 sample, not {samples}")
    found = {}
    tokenized = bleu_tokenizer(tokenize, language)
    for name, metric in _metrics(lowercase, tokenize).items():
        sides = [tokenized(texts) if name == "bleu" else texts for texts in (first, second, references)]
        # Counts a sentence, (N, counts). They add up, so a sample's score needs no text.
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
    # `force` only silences the advice not to score tokenised text: the caller who says `none` means it.
    from sacrebleu.metrics import BLEU, CHRF  # here: whoever only translates need not wait for it

    return {"bleu": BLEU(lowercase=lowercase, tokenize=tokenize, force=True), "chrf": CHRF(lowercase=lowercase)}


def bleu_tokenizer(tokenize: str, language: str) -> Callable[[Sequence[str]], Sequence[str]]:
    """What is done to texts before sacrebleu counts their n-grams: nothing, or Moses' tokenization. It refuses what is
    missing at once, so a caller can ask before minutes of translation."""
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
    """Refuses two lists that cannot be compared line by line."""
    if len(outputs) != len(references):
        raise UserError(f"{len(outputs)} outputs but {len(references)} references; each line needs its own")
    if not references:
        raise UserError("nothing to score: there are no lines")


def _interval(scores: np.ndarray) -> tuple[float, float]:
    low, high = np.quantile(scores, [0.025, 0.975])
    return float(low), float(high)
