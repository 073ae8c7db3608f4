"""Every file in the family is a curve that warms up to its peak; each then falls by its own formula."""

from __future__ import annotations

import math

import pytest

from regard import registry

KINDS = registry.kinds("training/schedule")


def curve(kind: str, warmup: int = 100, steps: int = 1000) -> list[float]:
    at = registry.create("training/schedule", kind, learning_rate=0.01, warmup=warmup, steps=steps)
    return [at(step) for step in range(1, steps + 1)]


@pytest.mark.parametrize("kind", KINDS)
def test_warms_up_linearly_to_the_peak_and_never_rises_again(kind: str) -> None:
    rates = curve(kind)
    assert rates[:100] == pytest.approx([0.01 * step / 100 for step in range(1, 101)])
    assert all(later <= earlier for earlier, later in zip(rates[99:], rates[100:], strict=False))
    assert min(rates) > 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("warmup", [0, 1, 1000, 5000])
def test_any_warmup_gives_rates_within_the_peak(kind: str, warmup: int) -> None:
    assert all(0 < rate <= 0.01 for rate in curve(kind, warmup))


def test_formulas() -> None:
    assert {"constant", "cosine", "inverse_square_root"} <= set(KINDS)
    assert curve("constant")[-1] == 0.01
    assert curve("inverse_square_root")[399] == pytest.approx(0.01 / 2)
    half_way = curve("cosine")[549]
    assert half_way == pytest.approx(0.01 * (0.1 + 0.9 * (1 + math.cos(math.pi / 2)) / 2))
    assert curve("cosine")[-1] == pytest.approx(0.001)
    width, warmup, step = 512, 4000, 9000  # the paper's own formula, at the peak it implies
    paper = width**-0.5 * min(step**-0.5, step * warmup**-1.5)
    ours = registry.create(
        "training/schedule", "inverse_square_root", learning_rate=(width * warmup) ** -0.5, warmup=warmup, steps=1
    )
    assert ours(step) == pytest.approx(paper)
