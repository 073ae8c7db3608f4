"""Confidences and warnings of translations (`doubt`): what BaseTranslator adds to those that it has found.

The search does not know of it: finished texts are scored once more, so a translation is the same with and without.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from regard.checks import findings
from regard.confidence.calibration import Calibration
from regard.confidence.features import sentence_features, word_features
from regard.confidence.words import Word, scored_words
from regard.hypothesis import Hypothesis
from regard.task._translation import Translation

if TYPE_CHECKING:
    from regard.data.tokenizer._base import Tokenizer
    from regard.decoding.cancellation import Cancelled
    from regard.glossary import Glossary
    from regard.task._base_translator import BaseTranslator


def with_confidence(
    translator: BaseTranslator,
    made: Sequence[Translation],
    sources: Sequence[list[int]],
    found: Sequence[list[Hypothesis]],
    calibrations: Sequence[Calibration],
    batch_tokens: int,
    cancelled: Cancelled | None,
    first: int,
) -> list[Translation]:
    """The translations of sentences, and their alternatives, with confidences; `calibrations` has one for each.

    `first` is the number of tokens that say the target language.
    """
    scores = translator.hypothesis_log_probs(sources, found, batch_tokens, cancelled, first)
    target = translator.tokenizer.target
    return [
        _scored(one, hypotheses, scores, target, calibration, first)
        for one, hypotheses, calibration in zip(made, found, calibrations, strict=True)
    ]


def with_warnings(
    whole: Sequence[Translation], languages: Sequence[tuple[str, str]], glossaries: Sequence[Glossary | None]
) -> list[Translation]:
    """The translations of texts, with what speaks against them; `languages` and `glossaries` have those of each."""
    return [
        replace(one, warnings=findings(one.source, one.text, to, start, glossary))
        for one, (start, to), glossary in zip(whole, languages, glossaries, strict=True)
    ]


def _scored(
    made: Translation,
    hypotheses: Sequence[Hypothesis],
    scores: Iterator[list[float]],
    tokenizer: Tokenizer,
    calibration: Calibration,
    first: int,
) -> Translation:
    done = []
    for one, hypothesis in zip((made, *made.alternatives), hypotheses, strict=True):
        surfaces = tokenizer.surfaces(hypothesis.ids[first:])
        confidence, words = confidences(calibration, one.source, one.text, surfaces, next(scores))
        done.append(replace(one, confidence=confidence, words=words))
    return replace(done[0], alternatives=done[1:])


def confidences(
    calibration: Calibration, source: str, text: str, surfaces: Sequence[str], log_probabilities: Sequence[float]
) -> tuple[float | None, list[Word]]:
    """Of a sentence and of each of its words. None for one that was cancelled."""
    if not log_probabilities:
        return None, []
    scored = scored_words(text, surfaces, log_probabilities)
    rows = word_features(source, text, scored, log_probabilities)
    words = [Word(w.start, w.end, calibration.word.probability(row)) for w, row in zip(scored, rows)]
    return calibration.sentence.probability(sentence_features(scored, log_probabilities)), words
