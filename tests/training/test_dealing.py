"""Batches dealt to several ranks: their union is the whole stream, and no rank builds another's."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.data import examples as examples_module
from regard.data.batching import Batches
from regard.data.corpus.pack import Pack, pack_pairs
from regard.data.examples import ExampleBatches
from regard.types import Batch
from tests.training.ranks import examples


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Pack:
    lines = ["".join(chr(97 + (n * k) % 23) for k in range(1, 3 + n % 7)) for n in range(60)]

    def encode(texts: Any) -> list[list[int]]:
        return [[ord(letter) - 90 for letter in text] for text in texts]

    return pack_pairs(
        [(line, line[::-1]) for line in lines], encode, encode, tmp_path_factory.mktemp("p") / "pack", vocabulary=40
    )


def streams(kind: str, pack: Pack) -> Any:
    if kind == "examples":
        return ExampleBatches(lambda epoch: examples(), varying=True, batch_tokens=64, batch_examples=4, seed=2)
    return Batches(pack, batch_tokens=60, seed=2, window=32, workers=int(kind))


def text(batch: Batch) -> str:
    return str([batch.source.tolist(), batch.target.tolist()])


@pytest.mark.parametrize(("ranks", "together"), [(2, 2), (3, 4), (2, 5), (1, 3)])
@pytest.mark.parametrize("kind", ["0", "1", "3", "examples"])
def test_each_batch_is_built_by_exactly_one(
    kind: str, ranks: int, together: int, pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over windows and epochs, whose ends need not be those of a step; every rank stands where the others do."""
    count = 8 * together
    whole = streams(kind, pack)
    every = []
    for batch in islice(whole, count):
        every.append((text(batch), whole.cursor()))
    found: list[str] = [""] * count
    for rank in range(ranks):
        stream = streams(kind, pack)
        stream.share(rank, ranks, together)
        for turn, batch in enumerate(islice(stream, count)):
            assert stream.cursor() == every[turn][1]
            assert bool(len(batch)) == (turn % together % ranks == rank)
            if len(batch):
                assert not found[turn]
                found[turn] = text(batch)
    assert found == [content for content, _ in every]


def test_others_batches_cost_nothing(pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    built = 0
    for owner, name in ((Batches, "_build"), (examples_module, "collate")):
        original = getattr(owner, name)

        def counted(*arguments: Any, original: Any = original) -> Any:
            nonlocal built
            built += 1
            return original(*arguments)

        monkeypatch.setattr(owner, name, counted)
    for kind in ("0", "examples"):
        stream, built = streams(kind, pack), 0
        stream.share(1, 4, 8)
        list(islice(stream, 24))
        assert built == 6


def test_an_iteration_begins_a_step_wherever_it_is_sought(pack: Pack, tmp_path: Path) -> None:
    """As when a run is resumed, by other ranks than began it."""
    whole = streams("0", pack)
    every = [text(batch) for batch in islice(whole, 5)]
    cursor = whole.cursor()
    following = [text(batch) for batch in islice(whole, 4)]
    stream = streams("0", pack)
    stream.share(1, 2, 4)
    stream.seek(cursor)
    assert [text(batch) for batch in islice(stream, 4) if len(batch)] == following[1::2]
    assert len(set(every + following)) == 9


def test_placeholders_have_no_rows() -> None:
    from regard.data.rank_share import OTHER_RANKS_BATCH

    assert (
        len(OTHER_RANKS_BATCH) == 0
        and OTHER_RANKS_BATCH.units == 0
        and len(OTHER_RANKS_BATCH.to(torch.device("cpu"))) == 0
    )
