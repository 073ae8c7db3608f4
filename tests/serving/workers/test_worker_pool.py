"""The worker pool with scripted workers (scripted_worker.py): batching, fairness, limits, cancellation, lost workers."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

import pytest
from serving.scripted_pool import COMMAND, running, said, within

from regard.errors import UserError
from regard.serving.workers import worker_process
from regard.serving.workers.errors import JobFailed, JobRefused, ServerBusy
from regard.serving.workers.job_queue import Throughput
from regard.serving.workers.translation_cache import TranslationCache
from regard.serving.workers.translation_result import SearchOptions

HOW = SearchOptions()


@pytest.fixture(autouse=True)
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "COMMAND", COMMAND)


def test_each_gets_its_own_answers_in_order_though_they_were_computed_together() -> None:
    async def test() -> None:
        async with running(workers=2) as pool:
            texts = [[f"text {i}.{j}" for j in range(1 + i % 4)] for i in range(64)]
            found = await asyncio.gather(*(said(pool, *each) for each in texts))
            assert found == [[text.upper() for text in each] for each in texts]
            assert pool.statistics.batched == sum(map(len, texts))
            assert pool.statistics.batches < 20  # 160 sentences, at most 32 at a time, by two workers

    within(20, test)


def test_sentences_that_differ_only_in_how_many_translations_they_want_share_a_batch() -> None:
    async def test() -> None:
        async with running(beam=4) as pool:
            wanted = [SearchOptions(n_best=count) for count in (1, 4, 2, 1, 5)]
            await asyncio.gather(*(pool.translate("m", [f"text {i}"], how) for i, how in enumerate(wanted)))
            assert (pool.statistics.batched, pool.statistics.batches) == (5, 2)  # five are more than its beam

    within(20, test)


def test_a_sentence_does_not_wait_for_a_book() -> None:
    async def test() -> None:
        async with running() as pool:
            book = asyncio.create_task(said(pool, *(f"wait 0.01 {i}"[:9] + f"{i}" for i in range(600))))
            await asyncio.sleep(0.1)
            start = time.monotonic()
            assert await said(pool, "short") == ["SHORT"]
            alone = time.monotonic() - start
            assert not book.done()
            assert alone < 4  # the batch under way and its own at most; the book takes more than ten seconds
            book.cancel()

    within(20, test)


LONG = " / ".join(f"wait 0.2{number:03}" for number in range(100))
"""A text that is split into parts, of which one worker does five per second."""


def test_a_long_text_is_cut_and_its_translation_put_together_in_order() -> None:
    async def test() -> None:
        async with running(workers=2) as pool:
            text = " / ".join(f"part {number}" for number in range(300))
            found = await said(pool, "first", text, "last", text)
            assert found == ["FIRST", text.replace(" / ", " ").upper(), "LAST", text.replace(" / ", " ").upper()]
            assert pool.statistics.batched == 302

    within(20, test)


def test_a_sentence_does_not_wait_for_a_long_text_nor_for_many() -> None:
    async def test() -> None:
        async with running(queue_limit=300, wait_limit=60) as pool:
            texts = [" / ".join(f"wait 0.0{number}{part:03}" for part in range(299)) for number in (1, 2)]
            books = [asyncio.create_task(said(pool, text)) for text in texts]
            await asyncio.sleep(0.2)
            start = time.monotonic()
            assert await said(pool, "short") == ["SHORT"]  # the queue is not full, either: 2 x 299 are more than 300
            assert time.monotonic() - start < 3
            assert not any(book.done() for book in books)
            for book in books:
                book.cancel()

    within(20, test)


def test_R14_a_long_text_that_nobody_waits_for_leaves_its_worker_at_once() -> None:
    async def test() -> None:
        async with running() as pool:
            gone = asyncio.create_task(said(pool, LONG))
            await asyncio.sleep(0.5)
            gone.cancel()
            start = time.monotonic()
            assert await said(pool, "next") == ["NEXT"]
            assert time.monotonic() - start < 1
            assert pool.waiting == 0 and not pool._queue
            assert pool.statistics.batched <= 1 + 32

    within(20, test)


@pytest.mark.parametrize(
    ("text", "n_best", "weights"),
    [
        ("matrix 500 200", 1, 100_000),
        ("matrix 500 201", 1, 100_500),
        ("matrix 100 300", 3, 90_000),
        ("matrix 100 300", 4, 120_000),
        (" / ".join(f"matrix 9 {9 + number % 3}" for number in range(32)), 1, 288 * 319),  # with zeros between parts
        (" / ".join(f"matrix 9 {9 + number % 3}" for number in range(32)), 2, 2 * 288 * 319),
    ],
)
def test_attention_is_limited_by_the_weights_that_are_returned(text: str, n_best: int, weights: int) -> None:
    how = SearchOptions(n_best=n_best, attention=True)

    async def test() -> None:
        async with running() as pool:
            if weights > 100_000:
                with pytest.raises(UserError, match=f"attention: {weights:,} weights exceed the limit of 100,000"):
                    await pool.translate("m", [text], how)
            else:
                (found,) = await pool.translate("m", [text], how)
                assert sum(sum(map(len, one.attention or ())) for one in (found, *found.alternatives)) == weights

    within(20, test)


def test_what_is_expected_to_take_long_is_learnt_from_large_batches_not_from_small_ones() -> None:
    throughput = Throughput()
    throughput.add(4000, 2.0, 2)
    for _ in range(3):
        throughput.add(40, 0.2, 2)  # fixed costs
    assert 1.0 < throughput.seconds(4000) < 2.0


def test_S18_the_same_sentence_is_computed_once_in_a_request_and_kept_only_when_asked_to() -> None:
    async def test() -> None:
        async with running(translation_cache=2) as pool:
            assert await said(pool, "a", "a", "b", "a") == ["A", "A", "B", "A"]
            assert pool.statistics.batched == 2
            await said(pool, "a")
            assert pool.statistics.batched == 2
            await pool.translate("m", ["a"], SearchOptions(beam=2))  # every parameter is part of the key
            await pool.translate("m", ["a"], HOW, owner="another key")
            assert pool.statistics.batched == 4
            assert len(pool._cache) == 2
        async with running() as pool:
            await said(pool, "a")
            await said(pool, "a")
            assert pool.statistics.batched == 2

    within(20, test)


def test_S18_keys_do_not_collide_and_the_cache_is_bounded() -> None:
    cache = TranslationCache(3)
    for key in (("a|b",), ("a", "b"), ("a", ("b",))):
        assert cache.get(key) is None
        cache.put(key, key)
    assert [cache.get(key) for key in (("a|b",), ("a", "b"), ("a", ("b",)))] == [("a|b",), ("a", "b"), ("a", ("b",))]
    cache.put(("fourth",), 4)
    assert len(cache) == 3 and cache.get(("a|b",)) is None


def test_R13_a_full_queue_refuses_and_says_when_to_come_back() -> None:
    async def test() -> None:
        async with running(queue_limit=10) as pool:
            first = asyncio.create_task(said(pool, "wait 0.3"))
            await asyncio.sleep(0.1)
            second = asyncio.create_task(said(pool, *(f"t{i}" for i in range(10))))
            await asyncio.sleep(0)
            with pytest.raises(ServerBusy) as refused:
                await said(pool, "one too many")
            assert isinstance(refused.value.retry_after, int) and refused.value.retry_after >= 1
            with pytest.raises(JobRefused, match="11 sentences"):  # this will never fit: no use to come back
                await said(pool, *map(str, range(11)))
            assert await first == ["WAIT 0.3"]
            assert len(await second) == 10
            assert await said(pool, "again") == ["AGAIN"]

    within(20, test)


def test_R13_a_wait_that_would_be_too_long_is_refused() -> None:
    async def test() -> None:
        async with running(wait_limit=0.2) as pool:
            await said(pool, "wait 0.2")  # so it knows how slow it is
            found = await asyncio.gather(*(said(pool, f"wait 0.2{i}") for i in range(40)), return_exceptions=True)
            refused = [one for one in found if isinstance(one, ServerBusy)]
            assert 30 <= len(refused) < 40  # those for whom there was time were let in
            assert pool.waiting == 0 and not pool._queue
            assert await said(pool, "later") == ["LATER"]

    within(20, test)


def test_R14_what_is_taken_back_is_not_computed_any_more() -> None:
    async def test() -> None:
        async with running() as pool:
            under_way = asyncio.create_task(said(pool, "wait 5"))
            await asyncio.sleep(0.2)
            queued = asyncio.create_task(said(pool, "wait 6"))
            await asyncio.sleep(0)
            queued.cancel()
            under_way.cancel()
            start = time.monotonic()
            assert json.loads((await said(pool, "noted"))[0]) == [[1, 0]]  # what only waited never reached it
            assert time.monotonic() - start < 1
            assert pool.waiting == 0 and not pool._queue

    within(20, test)


def test_R14_one_of_a_batch_is_taken_back_and_the_others_are_answered() -> None:
    async def test() -> None:
        async with running() as pool:
            others = asyncio.create_task(said(pool, "a", "b"))
            gone = asyncio.create_task(said(pool, "wait 5"))
            await asyncio.sleep(0.3)
            gone.cancel()
            assert await others == ["A", "B"]
            assert len(json.loads((await said(pool, "noted"))[0])) == 1

    within(4, test)


def test_R18_a_lost_worker_is_replaced_and_costs_only_the_request_that_brought_it_down() -> None:
    async def test() -> None:
        async with running() as pool:
            before = await said(pool, "pid")
            bad = asyncio.create_task(said(pool, "crash"))
            good = [asyncio.create_task(said(pool, f"good {i}")) for i in range(20)]
            with pytest.raises(JobFailed):
                await bad
            assert await asyncio.gather(*good) == [[f"GOOD {i}"] for i in range(20)]
            assert await said(pool, "pid") != before

    within(30, test)


def test_R7_what_memory_does_not_suffice_for_fails_alone() -> None:
    async def test() -> None:
        async with running() as pool:
            bad, good = asyncio.create_task(said(pool, "x", "memory")), asyncio.create_task(said(pool, "good"))
            with pytest.raises(JobFailed, match="memory"):
                await bad
            assert await good == ["GOOD"]
            assert await said(pool, "next") == ["NEXT"]

    within(20, test)


def test_what_a_model_refuses_is_refused() -> None:
    async def test() -> None:
        async with running() as pool:
            with pytest.raises(JobRefused, match="no such thing"):
                await said(pool, "refuse")

    within(20, test)


def test_a_model_that_cannot_be_loaded_is_said_before_anything_is_served() -> None:
    async def test() -> None:
        with pytest.raises(UserError, match="cannot be loaded"):
            async with running("refused", workers=2):
                pass

    within(20, test)


def test_other_jobs_and_streams() -> None:
    async def test() -> None:
        async with running() as pool:
            assert await pool.run_task("m", "classify", {"text": "é"}) == {"asked": {"text": "é"}, "task": "classify"}
            numbers = [part["number"] async for part in pool.stream("m", "generate", {"parts": 5})]
            assert numbers == [0, 1, 2, 3, 4]
            stream = pool.stream("m", "generate", {"parts": 1000})
            assert (await anext(stream))["number"] == 0
            await stream.aclose()
            start = time.monotonic()
            assert await said(pool, "next") == ["NEXT"]  # the rest of the thousand was not waited for
            assert time.monotonic() - start < 2

    within(20, test)


def test_closing_ends_workers_and_those_who_wait() -> None:
    async def test() -> None:
        async with running() as pool:
            under_way = asyncio.create_task(said(pool, "wait 30"))
            await asyncio.sleep(0.1)
            waiting = asyncio.create_task(said(pool, "next"))
            await asyncio.sleep(0)
            pid = pool.workers[0].pid
        with pytest.raises(JobFailed):
            await waiting
        with pytest.raises((JobFailed, asyncio.CancelledError)):
            under_way.cancel()
            await under_way
        assert not Path(f"/proc/{pid}").exists()

    within(20, test)


def test_R18_a_worker_that_ends_while_it_starts_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "COMMAND", (sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"))

    async def test() -> None:
        with pytest.raises(UserError, match=r"ended while it was starting \(SIGKILL\)"):
            async with running(workers=2):
                pass

    within(20, test)
