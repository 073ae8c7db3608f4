"""Options that choose among translations: minimum Bayes risk, reranking by other models, a translation memory."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import MOST_BEAMS
from regard.cli.terminal import escape_control_characters, one_line, say
from regard.errors import UserError, suggestion

if TYPE_CHECKING:
    from regard.task._translation import Translation

LARGE = 5_000_000
"""Bytes of a memory that take more than a second or two to read."""
MODELS = ("reverse", "lm")


class Metric(enum.StrEnum):
    chrf = "chrf"
    bleu = "bleu"


class Origin(enum.StrEnum):
    samples = "samples"
    beam = "beam"


Mbr = Annotated[
    int | None,
    typer.Option(
        "--mbr",
        metavar="N",
        min=1,
        max=MOST_BEAMS,
        help="Minimum Bayes risk: of N candidates, take the one most like the others.",
    ),
]
MbrMetric = Annotated[Metric | None, typer.Option(help="How --mbr compares candidates; default: chrf.")]
MbrFrom = Annotated[
    Origin | None, typer.Option(help="The candidates of --mbr: samples (default), or those of a beam search.")
]
Rerank = Annotated[
    list[str] | None,
    typer.Option(
        metavar="reverse=MODEL|lm=MODEL",
        help="Rank the hypotheses of the beam by a translator back, a language model of the target, or both, too.",
    ),
]
RerankWeight = Annotated[
    list[str] | None, typer.Option(metavar="reverse=NUMBER|lm=NUMBER", help="Their weights; default: 0.5 and 0.2.")
]
MemoryFile = Annotated[
    Path | None,
    typer.Option(
        "--memory",
        metavar="FILE.tsv",
        help="A translation memory: exact matches are used as they are, similar texts help the model.",
    ),
]
MemoryThreshold = Annotated[
    float | None,
    typer.Option(min=0.01, max=1, help="The similarity from which on a match of --memory is shown; default: 0.6."),
]


@dataclass(frozen=True)
class ChoosingOptions:
    """What the command line says, as plain values."""

    mbr: int | None = None
    mbr_metric: Metric | None = None
    mbr_from: Origin | None = None
    rerank: Sequence[str] = ()
    rerank_weight: Sequence[str] = ()
    memory: Path | None = None
    memory_threshold: float | None = None

    def check(self, one_model: bool, server: str | None, beam: int | None) -> None:
        """Refuses what does not go together, before anything is loaded."""
        of_mbr = (self.mbr_metric, self.mbr_from)
        if self.mbr is None and any(value is not None for value in of_mbr):
            raise UserError("--mbr-metric and --mbr-from belong to --mbr N")
        if self.memory is None and self.memory_threshold is not None:
            raise UserError("--memory-threshold belongs to --memory FILE.tsv")
        if not self:
            return
        if server or not one_model:
            raise UserError(
                "--mbr, --rerank and --memory need a model that translates directly; leave out --server, --via, chains"
            )
        if self.mbr and self.rerank:
            raise UserError("--mbr and --rerank both choose the translation; leave out one of them")
        if self.samples and self.memory:
            raise UserError("--mbr draws its samples without a memory; with --memory write --mbr-from beam")
        if self.samples and beam is not None:
            raise UserError("--mbr takes samples and has no use for --beam; leave it out or write --mbr-from beam")
        self._weights()
        self._models()

    def __bool__(self) -> bool:
        return bool(self.mbr or self.rerank or self.rerank_weight or self.memory)

    @property
    def samples(self) -> bool:
        return self.mbr is not None and self.mbr_from is not Origin.beam

    @property
    def needs_torch(self) -> bool:
        return self.samples or self.memory is not None

    def options(self, quiet: bool, load: Callable[..., Any]) -> dict[str, Any]:
        """The keywords of `translate`; models are loaded by `load(model, task)`."""
        found: dict[str, Any] = {}
        if self.mbr:
            from regard.minimum_bayes_risk import MinimumBayesRisk

            metric, origin = self.mbr_metric or Metric.chrf, self.mbr_from or Origin.samples
            found["mbr"] = MinimumBayesRisk(self.mbr, metric.value, origin.value)
        if self.rerank:
            from regard.reranking import Reranker

            tasks = {"reverse": "translate", "lm": "generate"}
            models = {name: load(model, tasks[name]) for name, model in self._models().items()}
            weights: dict[str, Any] = {f"{name}_weight": value for name, value in self._weights().items()}
            found["rerank"] = Reranker(**models, **weights)
        if self.memory:
            from regard.translation_memory import THRESHOLD, TranslationMemory

            if not quiet and self.memory.is_file() and self.memory.stat().st_size > LARGE:
                say(f"reading the memory {self.memory} ...")
            found["memory"] = TranslationMemory.read(self.memory, threshold=self.memory_threshold or THRESHOLD)
        return found

    def settings(self, options: dict[str, Any]) -> dict[str, Any]:
        """What bulk work depends on, without the values that are not plain: they are taken out of `options`."""
        found: dict[str, Any] = {}
        if mbr := options.pop("mbr", None):
            found["mbr"] = [mbr.candidates, mbr.metric, mbr.origin]
        if options.pop("rerank", None):
            found["rerank"] = [*sorted(self._model_hashes()), *sorted(self.rerank_weight)]
        if memory := options.pop("memory", None):
            found["memory"] = memory.fingerprint()
        return found

    def _model_hashes(self) -> list[str]:
        from regard.find_model import find_model
        from regard.storage import read_folder

        return [
            f"{name}={read_folder(find_model(model), hash_tensors=False).hash[:16]}"
            for name, model in self._models().items()
        ]

    def _models(self) -> dict[str, str]:
        return _named("--rerank", self.rerank)

    def _weights(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for name, value in _named("--rerank-weight", self.rerank_weight).items():
            if name not in self._models():
                raise UserError(f"--rerank-weight: '{name}' has no model; write --rerank {name}=MODEL, too")
            try:
                found[name] = float(value)
            except ValueError:
                raise UserError(f"--rerank-weight: '{value}' is not a number; write {name}=0.5") from None
        return found


def _named(option: str, values: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for value in values:
        name, equals, what = value.partition("=")
        if name not in MODELS or not equals or not what:
            hint = suggestion(name, MODELS) if equals else ""
            raise UserError(f"{option}: '{value}' is not understood{hint}; write reverse=... or lm=...")
        if name in found:
            raise UserError(f"{option}: {name} is there twice; leave out one of them")
        found[name] = what
    return found


def match_lines(translation: Translation, number: int) -> list[str]:
    """What the memory had for a line, to be shown to a person."""
    return [
        escape_control_characters(
            one_line(f"line {number}: {_kind(similarity)}: {source} -> {target}").replace("\t", " ")
        )
        for source, target, similarity in translation.matches
    ]


def match_trees(translation: Any) -> list[dict[str, Any]]:
    return [match._asdict() for match in translation.matches]


def _kind(similarity: float) -> str:
    return "exact match" if similarity == 1 else f"{similarity:.0%} match"
