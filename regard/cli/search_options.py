"""Options of how translations are searched for or drawn, beyond plain beam search. torch computes all of them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from regard.cli.options import LARGEST_SEED, MOST, MOST_BEAMS
from regard.cli.terminal import Engine

CoveragePenalty = Annotated[
    float | None, typer.Option(min=0, max=10, help="How much source words without attention cost; 0.2 is usual.")
]
BeamGroups = Annotated[
    int | None, typer.Option(min=1, max=MOST_BEAMS, help="Groups of beams that avoid each other's tokens.")
]
DiversityPenalty = Annotated[
    float | None, typer.Option(min=0, max=100, help="What a token costs for each beam of an earlier group that has it.")
]
SamplingTemperature = Annotated[
    float | None,
    typer.Option("--temperature", min=0.01, max=100, help="Draw translations: below 1 safer, above 1 bolder."),
]
SamplingTopK = Annotated[
    int | None, typer.Option("--top-k", min=0, max=MOST, help="Draw from the k most probable tokens only; 0 is all.")
]
SamplingTopP = Annotated[
    float | None,
    typer.Option("--top-p", min=0.001, max=1, help="Draw from the fewest tokens that hold this probability."),
]
SamplingSeed = Annotated[
    int | None, typer.Option("--seed", min=0, max=LARGEST_SEED, help="Seed of the first draw of each line; default: 0.")
]
Prefix = Annotated[str, typer.Option(metavar="TEXT", help="How every translation begins.")]


def stated(**options: Any) -> dict[str, Any]:
    """The options that were given. What was not is left to the recipe, and changes no bulk work."""
    return {name: value for name, value in options.items() if value not in (None, "")}


def engine_for_search(engine: Engine, options: dict[str, Any]) -> Engine:
    """torch for what CTranslate2 would have to ask it for; a prefix both can."""
    return Engine.torch if engine is Engine.auto and options.keys() - {"prefix"} else engine
