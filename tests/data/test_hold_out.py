from __future__ import annotations

import hashlib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.corpus.hold_out import HeldOut, choose, text_hash
from regard.data.corpus.reading import Pair


def corpus(count: int = 500) -> list[Pair]:
    draw = random.Random(3)
    return [(f"source {draw.randrange(count)}", f"Target {draw.randrange(count // 2)}") for _ in range(count)]


def by_hand(pairs: list[Pair], counts: list[int]) -> list[list[Pair]]:
    """The rule spelled out: distinct pairs by their target's hash, in whole groups, a set cut at its count."""
    remaining = sorted(set(pairs), key=lambda pair: (text_hash(pair[1]), pair))
    sets = []
    for count in counts:
        chosen = remaining[: min(count, len(pairs) // 10)]
        used = {target for _, target in chosen}
        remaining = [pair for pair in remaining if pair[1] not in used]
        sets.append(chosen)
    return sets


@settings(max_examples=40)
@given(st.integers(0, 60), st.integers(0, 60), st.integers())
def test_the_rule(first: int, second: int, seed: int) -> None:
    pairs = corpus()
    wanted = by_hand(pairs, [first, second])
    random.Random(seed).shuffle(pairs)
    assert choose(iter(pairs), [first, second]) == wanted
    assert [len(chosen) for chosen in wanted] == [min(first, 50), min(second, 50)]


def test_text_hash() -> None:
    assert text_hash("Straße  \u00a0A") == text_hash("strae\u0301".replace("e\u0301", "ße a"))
    assert text_hash("abc") == int(hashlib.blake2b(b"abc", digest_size=8).hexdigest(), 16)


def test_no_leak() -> None:
    pairs = corpus()
    test, valid = choose(pairs, [40, 30])
    held = HeldOut([*test, *valid])
    training = [pair for pair in pairs if not held.has(*pair)]
    for side in (0, 1):
        assert not {pair[side].lower() for pair in training} & {pair[side].lower() for pair in [*test, *valid]}
    assert not {target for _, target in test} & {target for _, target in valid}
    assert len(training) > 250
    assert held.has(" SOURCE x", test[0][1].upper() + "\u00a0") and held.has(test[0][0].upper(), "new")


def test_one_target_a_million_times_is_bounded() -> None:
    pairs = ((f"oui {i}", "Yes.") for i in range(5_000))
    (chosen,) = choose(pairs, [25])
    assert len(chosen) == 25 and {target for _, target in chosen} == {"Yes."}


@pytest.mark.parametrize("pairs", [[], [("", "x")] * 30, [("a", "b")]])
def test_too_little_to_hold_out(pairs: list[Pair]) -> None:
    assert choose(pairs, [5, 0]) == [[], []]
