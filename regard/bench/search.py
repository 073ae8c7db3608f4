"""Ways to search for a translation: BLEU, chrF and time of each on one text, beside those of a beam of 4.

The shipped model fr-en reads French: `--source FILE --target FILE` name a text with its reference, `--corpus FILE.tsv`
the pairs of a translation memory. Everything is computed by torch, in this process, so that times compare.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import regard
from regard.bench._benchmark import Benchmark, Row, Setting
from regard.bench._text import made_lines
from regard.data.corpus.reading import read_pairs
from regard.errors import UserError
from regard.evaluation.translation import corpus_scores
from regard.minimum_bayes_risk import MinimumBayesRisk
from regard.reranking import Reranker
from regard.translation_memory import TranslationMemory

__all__ = ["Search"]

MODEL, REVERSE = "fr-en", "five-languages"
MEMBERS = ("fr-en-bahdanau", "fr-en-luong")
"""Models with one vocabulary, for the ensemble; both are far smaller than MODEL."""
BASE = "beam 4"
SAMPLES, CANDIDATES = 16, 8
QUICK_LINES = 2


class Search(Benchmark):
    """Lines per second; BLEU and chrF without --target are those of a translation against that of the beam of 4."""

    title = f"searches of {MODEL}"
    peer = BASE
    unit = "lines/s"

    def rows(self, setting: Setting) -> Iterator[Row]:
        sources, references = _text(setting)
        options: dict[str, tuple[str, Callable[[], dict[str, Any]]]] = {
            "greedy": (MODEL, lambda: {"beam": 1}),
            BASE: (MODEL, lambda: {"beam": 4}),
            "beam 4, coverage penalty 0.2": (MODEL, lambda: {"beam": 4, "coverage_penalty": 0.2}),
            "diverse beams, 4 in 2 groups": (
                MODEL,
                lambda: {"beam": 4, "beam_groups": 2, "diversity_penalty": 0.5},
            ),
            f"{SAMPLES} samples, minimum Bayes risk": (MODEL, lambda: {"mbr": MinimumBayesRisk(SAMPLES)}),
            f"beam {CANDIDATES}, minimum Bayes risk": (
                MODEL,
                lambda: {"mbr": MinimumBayesRisk(CANDIDATES, origin="beam")},
            ),
            f"beam {CANDIDATES}, reranked by {REVERSE}": (MODEL, lambda: {"rerank": _reranker(setting)}),
        }
        for member in MEMBERS:
            options[f"{member}, beam 4"] = (member, lambda: {"beam": 4})
        options["ensemble of these two, beam 4"] = (" ".join(MEMBERS), lambda: {"beam": 4})
        if setting.corpus:
            corpus = setting.corpus
            options["memory, greedy"] = (MODEL, lambda: {"beam": 1, "memory": _memory(corpus)})
            options["memory, beam 4"] = (MODEL, lambda: {"beam": 4, "memory": _memory(corpus)})
        wanted = [name for name in options if setting.wants(name)]
        if not wanted:
            return
        measured = {name: self._measure(setting, name, sources, *options[name]) for name in [BASE, *wanted]}
        usual, seconds, _ = measured[BASE]
        for name in wanted:
            outputs, wall, processor = measured[name]
            scores = corpus_scores(outputs, references or usual)
            notes = {
                "BLEU": f"{scores.bleu:.2f}",
                "chrF": f"{scores.chrf:.2f}",
                "s": f"{wall:.1f}",
                "CPU s": f"{processor:.1f}",
            }
            count = len(sources)
            yield Row(name, count / wall, count / seconds, seconds / wall, notes=notes)

    def _measure(
        self, setting: Setting, name: str, sources: list[str], model: str, options: Callable[[], dict[str, Any]]
    ) -> tuple[list[str], float, float]:
        setting.note(f"{len(sources):,} lines: {name} ...")
        translator, asked = _model(model, str(setting.device)), options()
        translator.translate(sources[:1], **asked)  # what is loaded at first use
        started, used = time.perf_counter(), time.process_time()
        found = [one.text for one in translator.translate(sources, **asked)]
        return found, time.perf_counter() - started, time.process_time() - used


def _text(setting: Setting) -> tuple[list[str], list[str]]:
    if setting.source is None:
        return made_lines(QUICK_LINES if setting.quick else 200), []
    if setting.target is None:
        raise UserError("--source of search needs its reference; add --target FILE")
    pairs = list(read_pairs([setting.source], [setting.target], kept=True))
    pairs = pairs[:QUICK_LINES] if setting.quick else pairs
    return [source for source, _ in pairs], [target for _, target in pairs]


@cache
def _model(names: str, device: str) -> Any:
    first, *others = names.split()
    if others:
        return regard.ensemble(first, *others, device=device)
    return regard.load(first, device, "translate", engine="torch")


@cache
def _memory(path: Path) -> TranslationMemory:
    return TranslationMemory.read(path)


def _reranker(setting: Setting) -> Reranker:
    return Reranker(reverse=_model(REVERSE, str(setting.device)), candidates=CANDIDATES)
