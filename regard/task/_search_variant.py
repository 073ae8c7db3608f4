"""How a search departs from plain beam search: sampling, diverse beams, the coverage penalty. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from regard.errors import UserError
from regard.hypothesis import Hypothesis
from regard.recipe import Decoding

if TYPE_CHECKING:
    from regard.task._base_translator import BaseTranslator, Progress

MOST_SEED = (1 << 63) - 1


@dataclass(frozen=True)
class Sampling:
    """Tokens are drawn instead of the likeliest ones being searched for."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def nth(self, number: int) -> Sampling:
        """That of a further sample of the same text."""
        return replace(self, seed=(self.seed + number) % (MOST_SEED + 1))


@dataclass(frozen=True)
class SearchVariant:
    """Computed by torch. The defaults are plain beam search."""

    coverage_penalty: float = 0.0
    beam_groups: int = 1
    diversity_penalty: float = 0.0
    sampling: Sampling | None = None


def search_variant(
    settings: Decoding,
    beam: int | None,
    n_best: int,
    *,
    coverage_penalty: float | None = None,
    beam_groups: int | None = None,
    diversity_penalty: float | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | None = None,
) -> SearchVariant | None:
    """The variant that the options of `translate` and the recipe ask for; None for plain beam search."""
    drawn = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    if any(value is not None for value in drawn.values()):
        named = {"beam": beam, "coverage_penalty": coverage_penalty, "beam_groups": beam_groups}
        for name, value in {**named, "diversity_penalty": diversity_penalty}.items():
            if value is not None:
                raise UserError(f"{name} is of beam search; leave it out to sample, or leave out {_named(drawn)}")
        return SearchVariant(sampling=_sampling(seed, **{k: v for k, v in drawn.items() if v is not None}))
    if seed is not None:
        raise UserError("seed is for sampling; add temperature, top_k or top_p")
    coverage = settings.coverage_penalty if coverage_penalty is None else coverage_penalty
    groups = settings.beam_groups if beam_groups is None else beam_groups
    diversity = settings.diversity_penalty if diversity_penalty is None else diversity_penalty
    for name, value, most in (("coverage_penalty", coverage, 10), ("diversity_penalty", diversity, 100)):
        if not 0 <= value <= most:
            raise UserError(f"{name} must lie between 0 and {most}, not {value}")
    width = max(settings.beam if beam is None else beam, n_best)
    if beam_groups is not None and (beam_groups < 1 or width % beam_groups):
        raise UserError(f"beam {width} cannot be divided into {beam_groups} groups; use a multiple of it")
    if diversity_penalty is not None and groups == 1:
        raise UserError("diversity_penalty is for groups of beams; add beam_groups")
    groups = groups if width % groups == 0 else 1  # the recipe's are for its own beam
    plain = not coverage and groups == 1
    return None if plain else SearchVariant(coverage, groups, diversity)


Search = Callable[[dict[str, Any], "Progress | None"], list[list[Hypothesis]]]


def search_as(
    variant: SearchVariant | None, options: dict[str, Any], search: Search, progress: Progress | None
) -> list[list[Hypothesis]]:
    """Hypotheses of each source. Every one of `n_best` samples is a search of its own, with its own seed."""
    if variant is None:
        return search(options, progress)
    if variant.sampling is None:
        return search({**options, "variant": variant}, progress)
    count = options["n_best"]
    rounds = []
    for number in range(count):
        own = {**options, "n_best": 1, "variant": replace(variant, sampling=variant.sampling.nth(number))}
        rounds.append(search(own, progress if number == count - 1 else None))
    return [[hypothesis for one in samples for hypothesis in one] for samples in zip(*rounds, strict=True)]


def search_beginning(
    translator: BaseTranslator,
    sources: Sequence[list[int]],
    first: Collection[int],
    begin_with: list[int],
    progress: Progress | None,
    options: dict[str, Any],
) -> list[list[Hypothesis]]:
    """As `translator.search`; the outputs of the `first` sources begin with these tokens, those of the others, further
    parts of a text, do not."""
    if not first:
        return translator.search(sources, progress=progress, **options)
    if len(first) < len(sources):
        options = {**options, "cancelled": None}  # it says which of all sources are
    chosen = sorted(first)
    found = dict(
        zip(chosen, translator.search_from([sources[i] for i in chosen], [begin_with] * len(chosen), **options))
    )
    if progress:
        progress(len(chosen))
    rest = [i for i in range(len(sources)) if i not in found]
    found |= zip(rest, translator.search([sources[i] for i in rest], progress=progress, **options))
    return [found[i] for i in range(len(sources))]


def _sampling(seed: int | None, **options: Any) -> Sampling:
    from regard.decoding.sampling import check_sampling

    sampling = Sampling(**options, seed=seed or 0)
    check_sampling(sampling.temperature, sampling.top_k, sampling.top_p)
    if not 0 <= sampling.seed <= MOST_SEED:
        raise UserError(f"seed must be a whole number from 0 on, not {sampling.seed}")
    return sampling


def _named(options: dict[str, Any]) -> str:
    return next(name for name, value in options.items() if value is not None)
