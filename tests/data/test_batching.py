from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.data.batching import Batches, _cut, pad, sorted_batches
from regard.data.corpus.filters import Filters
from regard.data.corpus.pack import Pack, pack_pairs
from regard.data.ragged import Sentences
from regard.data.shuffling import permuted
from regard.data.tokenizer.subword import Subword
from regard.errors import UserError
from regard.types import BEGIN, END, PAD, Batch

BUDGET, WINDOW = 200, 128


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory, subword: Subword, make_pairs: Callable[..., Any]) -> Pack:
    folder = tmp_path_factory.mktemp("batching") / "pack"
    return pack_pairs(
        make_pairs(500),
        subword.encode_many,
        subword.encode_many,
        folder,
        vocabulary=len(subword),
        filters=Filters(max_ratio=9),
    )


def batches(pack: Pack, **options: Any) -> Batches:
    return Batches(pack, **{"batch_tokens": BUDGET, "seed": 1, "window": WINDOW, "workers": 0, **options})


def rows(batch: Batch) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The pairs of a batch as lists, read off the padded tensors one by one."""
    result = []
    for i in range(len(batch)):
        source = [int(x) for x, m in zip(batch.source[i], batch.source_mask[i], strict=True) if m]
        target = [int(x) for x, m in zip(batch.target[i], batch.target_mask[i], strict=True) if m]
        assert source[-1] == END and (int(batch.target[i, 0]), target[-1]) == (BEGIN, END)
        result.append((tuple(source[:-1]), tuple(target[:-1])))
    return result


def take_epoch(stream: Batches) -> list[Batch]:
    epoch, taken = stream.cursor()["epoch"], []
    for batch in stream:
        taken.append(batch)
        if stream.cursor()["epoch"] > epoch:
            return taken
    raise AssertionError("a stream ended")


def same(one: Batch, other: Batch) -> bool:
    return one.units == other.units and all(
        torch.equal(getattr(one, name), getattr(other, name))
        for name in ("source", "source_mask", "target", "target_mask")
    )


def test_an_epoch_holds_every_pair_once(pack: Pack) -> None:
    taken = take_epoch(batches(pack))
    expected = Counter(tuple(map(tuple, pack.pair(i))) for i in range(len(pack)))
    assert Counter(row for batch in taken for row in rows(batch)) == expected


def test_sources_without_an_end(pack: Pack) -> None:
    """As models of OpenNMT-py read them; all else is the same."""
    pairs = zip(take_epoch(batches(pack)), take_epoch(batches(pack, source_end=False)), strict=True)
    for usual, without in pairs:
        assert torch.equal(usual.target, without.target) and usual.units == without.units
        assert torch.equal(usual.source_mask.sum(1) - 1, without.source_mask.sum(1))
        text = usual.source.masked_fill(usual.source == END, PAD)[:, :-1]
        assert torch.equal(text, without.source)


def test_shapes_padding_and_budget(pack: Pack) -> None:
    for batch in take_epoch(batches(pack)):
        assert batch.source.dtype == batch.target.dtype == torch.int64
        assert (batch.source[~batch.source_mask] == PAD).all() and (
            batch.target[:, 1:][~batch.target_mask[:, 1:]] == PAD
        ).all()
        assert batch.source_mask.any(0).all() and batch.target_mask[:, 1:].any(0).all()  # no column of padding alone
        assert batch.units == int(batch.target_mask.sum()) and not batch.target_mask[:, 0].any()
        assert len(batch) * batch.source.shape[1] <= BUDGET and len(batch) * (batch.target.shape[1] - 1) <= BUDGET


def test_batches_are_full_and_alike(pack: Pack) -> None:
    taken = take_epoch(batches(pack, window=len(pack), batch_tokens=1000))
    held = sum(batch.units + int(batch.source_mask.sum()) for batch in taken)
    room = sum(len(batch) * (batch.source.shape[1] + batch.target.shape[1] - 1) for batch in taken)
    assert held / room > 0.74, "the lengths here are drawn independently; sorted by target alone it is 0.69"
    lengths = [batch.target.shape[1] for batch in taken]
    assert lengths != sorted(lengths)


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=60), st.integers(1, 200))
def test_cutting_takes_as_many_as_fit(lengths: list[tuple[int, int]], budget: int) -> None:
    lengths.sort(key=lambda pair: pair[1])
    expected: list[list[tuple[int, int]]] = [[]]
    for pair in lengths:
        if expected[-1] and (len(expected[-1]) + 1) * max(map(max, [*expected[-1], pair])) > budget:
            expected.append([])
        expected[-1].append(pair)
    source, target = np.array(lengths).T
    assert [lengths[start:stop] for start, stop in _cut(source, target, budget)] == expected


def test_a_pair_beyond_the_budget_is_a_batch_of_one(pack: Pack) -> None:
    taken = take_epoch(batches(pack, batch_tokens=1))
    assert len(taken) == len(pack) and all(len(batch) == 1 for batch in taken)


def test_order_is_decided_by_seed_and_epoch(pack: Pack) -> None:
    stream = batches(pack)
    first, second = take_epoch(stream), take_epoch(stream)
    again = take_epoch(batches(pack))
    assert len(first) == len(again) and all(map(same, first, again))
    for other in (second, take_epoch(batches(pack, seed=2))):
        assert [rows(batch) for batch in other] != [rows(batch) for batch in first]
    in_window = [{row for batch in taken[:20] for row in rows(batch)} for taken in (first, second)]
    assert in_window[0] != in_window[1]  # pairs meet others in another epoch, not only in another order


def test_workers_change_nothing(pack: Pack, subword: Subword) -> None:
    sample = (partial(subword.resample, alpha=0.3), partial(subword.resample, alpha=0.3))
    for options in ({}, {"sample": sample}):
        plain = list(itertools.islice(batches(pack, **options), 150))
        for workers in (1, 3):
            stream = batches(pack, workers=workers, **options)
            assert all(map(same, plain, itertools.islice(stream, 150)))


@pytest.mark.parametrize("workers", [0, 2])
def test_seek_goes_on_exactly(pack: Pack, subword: Subword, workers: int) -> None:
    sample = (None, partial(subword.resample, alpha=0.3))
    whole = batches(pack, sample=sample)
    expected, cursors = [], [whole.cursor()]
    for batch in itertools.islice(whole, 250):
        expected.append(batch)
        cursors.append(whole.cursor())
    assert cursors[0] == {"epoch": 0, "window": 0, "batch": 0} and cursors[-1]["epoch"] >= 1
    assert len({tuple(cursor.values()) for cursor in cursors}) == len(cursors)
    ends = [i for i, cursor in enumerate(cursors) if cursor["batch"] == 0]  # windows and epochs start here
    for place in {0, 1, 100, 249, *ends}:
        resumed = batches(pack, workers=workers, sample=sample)
        resumed.seek(cursors[place])
        assert resumed.cursor() == cursors[place]
        assert all(map(same, expected[place : place + 15], resumed))


@pytest.mark.parametrize("workers", [0, 2])
def test_the_cursor_counts_only_what_was_handed_out(pack: Pack, workers: int) -> None:
    stream = batches(pack, workers=workers)
    taken = list(itertools.islice(stream, 7))
    assert stream.cursor() == {"epoch": 0, "window": 0, "batch": 7}
    taken += itertools.islice(stream, 5)  # a second iteration goes on where the first stopped
    assert all(map(same, taken, itertools.islice(batches(pack), 12)))


def test_a_cursor_of_another_budget(pack: Pack) -> None:
    stream = batches(pack, batch_tokens=1000)
    stream.seek({"epoch": 2, "window": 1, "batch": 999})
    next(iter(stream))
    assert stream.cursor() == {"epoch": 2, "window": 2, "batch": 1}
    stream.seek({"epoch": 2, "window": 999, "batch": 0})
    next(iter(stream))
    assert stream.cursor() == {"epoch": 3, "window": 0, "batch": 1}


def test_threads_end_with_the_iteration(pack: Pack) -> None:
    before = threading.active_count()
    iterator = iter(batches(pack, workers=3))
    next(iterator)
    assert threading.active_count() > before
    iterator.close()  # type: ignore[attr-defined]
    for thread in threading.enumerate():
        if thread.name.startswith("batches"):
            thread.join(5)
    assert threading.active_count() == before


def test_a_failure_in_a_worker_is_heard(pack: Pack) -> None:
    def fails(sentences: Sentences, seeds: np.ndarray) -> Sentences:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        next(iter(batches(pack, workers=2, sample=(fails, None))))


def test_sampling(pack: Pack, subword: Subword) -> None:
    stream = batches(pack, sample=(partial(subword.resample, alpha=0.2), None))
    first, second = take_epoch(stream), take_epoch(stream)
    assert all(len(batch) * (max(batch.source.shape[1], batch.target.shape[1] - 1)) <= BUDGET for batch in first)

    def texts(taken: Sequence[Batch]) -> Counter[tuple[str, str]]:
        return Counter((subword.decode(s), subword.decode(t)) for batch in taken for s, t in rows(batch))

    stored = [pack.pair(i) for i in range(len(pack))]
    expected = Counter((subword.decode(s), subword.decode(t)) for s, t in stored)
    assert texts(first) == texts(second) == expected
    sources = [{s for batch in taken for s, _ in rows(batch)} for taken in (first, second)]
    best = {tuple(source) for source, _ in stored}
    assert len(sources[0] & best) < 0.7 * len(best) and len(sources[0] & sources[1]) < 0.7 * len(best)
    assert {t for batch in first for _, t in rows(batch)} == {tuple(target) for _, target in stored}
    assert max(len(s) for s in sources[0] | sources[1]) <= pack.longest()[0]


def test_impossible_settings(pack: Pack) -> None:
    with pytest.raises(UserError, match="batch_tokens"):
        batches(pack, batch_tokens=0)


@given(st.integers(1, 2000), st.integers(0, 2**40), st.integers(0, 100))
def test_permutation(count: int, seed: int, epoch: int) -> None:
    everything = permuted(np.arange(count, dtype=np.uint64), count, seed, epoch)
    assert sorted(everything.tolist()) == list(range(count))
    part = permuted(np.arange(count // 2, count, dtype=np.uint64), count, seed, epoch)
    assert part.tolist() == everything[count // 2 :].tolist()


def test_permutation_looks_random() -> None:
    """Every place is equally likely to receive every index: a chi-square test over many seeds."""
    count, seeds = 10, 1500
    table = np.zeros((count, count))
    pairs: Counter[tuple[int, int]] = Counter()
    for seed in range(seeds):
        order = permuted(np.arange(count, dtype=np.uint64), count, seed, 0)
        table[np.arange(count), order] += 1
        pairs[int(order[0]), int(order[1])] += 1
    expected = seeds / count
    chi_square = ((table - expected) ** 2 / expected).sum()
    assert chi_square < 81 + 5 * (2 * 81) ** 0.5
    assert len(pairs) == 90 and max(pairs.values()) < 3 * seeds / 90
    large = permuted(np.arange(2**16, dtype=np.uint64), 2**16, 1, 0)
    assert abs(np.corrcoef(large, np.arange(2**16))[0, 1]) < 0.02
    assert abs(np.corrcoef(large[1:], large[:-1])[0, 1]) < 0.02


@given(st.lists(st.integers(0, 50), max_size=60), st.integers(1, 200))
def test_sorted_batches(lengths: list[int], budget: int) -> None:
    groups = list(sorted_batches([[7] * length for length in lengths], budget))
    assert sorted(i for group in groups for i in group) == list(range(len(lengths)))
    assert all(len(group) == 1 or len(group) * (max(lengths[i] for i in group) + 1) <= budget for group in groups)
    ordered = [lengths[i] for group in groups for i in group]
    assert ordered == sorted(lengths, reverse=True)


def test_pad() -> None:
    ids, mask = pad([[5, 6, 3], [], [7]])
    assert ids.tolist() == [[5, 6, 3], [0, 0, 0], [7, 0, 0]] and ids.dtype == torch.int64
    assert mask.tolist() == [[True] * 3, [False] * 3, [True, False, False]]
    assert pad([])[0].shape == (0, 0)
