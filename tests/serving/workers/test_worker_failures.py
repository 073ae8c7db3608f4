"""Worker failures: hanging, failing to start, endless loading, oversized answers (with scripted_worker.py)."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from serving.running import environment
from serving.scripted_pool import COMMAND, SCRIPT, running, said, within

from regard.errors import UserError
from regard.serving.workers import worker_pool, worker_process
from regard.serving.workers.errors import JobFailed, JobRefused


@pytest.fixture(autouse=True)
def short_deadlines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "COMMAND", COMMAND)
    monkeypatch.setattr(worker_pool, "PING_INTERVAL", 0.2)
    monkeypatch.setattr(worker_pool, "CANCEL_DEADLINE", 0.5)
    monkeypatch.setattr(worker_pool, "FIRST_BACKOFF", 0.05)


async def until(true: Callable[[], bool]) -> None:
    while not true():
        await asyncio.sleep(0.01)


# Hanging.


def test_stopped_workers_are_killed_and_replaced_and_their_jobs_done_by_others() -> None:
    async def test() -> None:
        async with running(workers=2) as pool:
            before = [worker.pid for worker in pool.workers]
            for pid in before:
                os.kill(pid, signal.SIGSTOP)
            waiting = asyncio.create_task(said(pool, "a", "b"))
            await until(lambda: not pool.ready)
            assert pool.stalled
            assert await waiting == ["A", "B"]
            assert pool.ready and not pool.stalled
            await until(lambda: all(worker.alive for worker in pool.workers))
            assert not {worker.pid for worker in pool.workers} & set(before)
            assert sum("did not answer 5 pings" in line for line in pool.said) == 2

    within(30, test)


def test_a_worker_that_computes_answers_pings_and_is_left_alone() -> None:
    async def test() -> None:
        async with running() as pool:
            pid = await said(pool, "pid")
            assert await said(pool, "wait 3") == ["WAIT 3"]  # longer than the watchdog's patience
            assert await said(pool, "pid") == pid

    within(20, test)


def test_a_worker_that_does_not_stop_when_told_to_is_replaced() -> None:
    async def test() -> None:
        async with running() as pool:
            pid = await said(pool, "pid")
            gone = asyncio.create_task(said(pool, "deaf"))
            await asyncio.sleep(0.1)
            gone.cancel()
            await until(lambda: not pool.ready)
            assert await said(pool, "pid") != pid

    within(20, test)


def test_a_server_that_was_held_up_itself_does_not_blame_its_workers() -> None:
    async def test() -> None:
        async with running() as pool:
            pid = await said(pool, "pid")
            time.sleep(3)  # the whole event loop: no pong can be read meanwhile
            await asyncio.sleep(0.5)
            assert await said(pool, "pid") == pid

    within(20, test)


# Failing to start.


def failing(monkeypatch: pytest.MonkeyPatch, times: float, error: Exception) -> list[float]:
    """Makes the next `times` process starts fail."""
    tried: list[float] = []
    start = asyncio.create_subprocess_exec

    async def perhaps(*command: Any, **more: Any) -> Any:
        tried.append(time.monotonic())
        if len(tried) <= times:
            raise error
        return await start(*command, **more)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", perhaps)
    return tried


@pytest.mark.parametrize("error", [BlockingIOError(11, "no process"), OSError(24, "no file"), MemoryError()], ids=repr)
def test_whatever_keeps_a_worker_from_starting_is_tried_again_with_growing_pauses(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with running() as pool:
            tried = failing(monkeypatch, 3, error)
            pool.workers[0].kill()
            assert await said(pool, "a") == ["A"]
            first, second, third = (after - before for before, after in zip(tried, tried[1:]))
            assert first > 0.04 and second > 0.09 and third > 0.19
            assert sum("could not be started" in line for line in pool.said) == 3
            assert not pool.broken.is_set()

    within(20, test)


def test_without_any_worker_the_server_gives_up_but_not_as_long_as_one_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with running(workers=2) as pool:
            tried = failing(monkeypatch, 1e9, OSError(24, "no file"))
            pool.workers[0].kill()
            await until(lambda: len(tried) > 5)
            assert not pool.broken.is_set() and pool.ready
            assert await said(pool, "a") == ["A"]
            pool.workers[1].kill()
            await pool.broken.wait()
            assert not pool.ready

    within(20, test)


def test_a_worker_that_ends_as_soon_as_it_is_ready_counts_as_not_started(tmp_path: Path) -> None:
    async def test() -> None:
        folder = tmp_path / "from now on"
        async with running("dies", folder=folder) as pool:
            folder.mkdir()
            pool.workers[0].kill()
            await pool.broken.wait()

    within(20, test)


def test_a_server_without_workers_exits_with_an_error(tmp_path: Path) -> None:
    """In a separate process, because it handles signals."""
    code = f"""
import os, signal, sys
from pathlib import Path
import psutil
from regard.serving.workers import worker_pool
from regard.serving.workers import worker_process
from regard.serving.http import server
from regard.serving.http.app import make_app
from regard.serving.catalogue import Catalogue, ServedModel
from regard.serving.settings import Settings
worker_process.COMMAND = (sys.executable, {str(SCRIPT)!r})
worker_pool.FIRST_BACKOFF = 0.01
folder = Path({str(tmp_path / "from now on")!r})
def note(line):
    print(line)
    if "ready on" in line:
        folder.mkdir()
        psutil.Process().children()[0].kill()
catalogue = Catalogue([ServedModel("dies", folder, "translate", "fr", "en")])
sys.exit(server.listen(Settings(port=0, workers=1), catalogue, note, make_app))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), timeout=60)
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[-1].startswith("no worker can be started any more")


def test_a_worker_comes_back_when_there_are_file_descriptors_again() -> None:
    async def test() -> None:
        async with running() as pool:
            most = resource.getrlimit(resource.RLIMIT_NOFILE)
            opened: list[int] = []
            highest = max(int(name) for name in os.listdir("/proc/self/fd"))
            resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 8, most[1]))
            try:
                with pytest.raises(OSError):
                    while True:
                        opened.append(os.dup(0))
                pool.workers[0].kill()
                await until(lambda: any("Too many open files" in line for line in pool.said))
                assert not pool.ready
            finally:
                for number in opened:
                    os.close(number)
                resource.setrlimit(resource.RLIMIT_NOFILE, most)
            assert await said(pool, "a") == ["A"]

    within(20, test)


# Loading.


def test_a_model_that_takes_too_long_to_load_is_refused_by_name() -> None:
    async def test() -> None:
        start = time.monotonic()
        with pytest.raises(UserError, match=r"^hangs: was not loaded within 0.5 s; see --load-timeout$"):
            async with running("m", "hangs", load_timeout=0.5, workers=2):
                pass
        assert time.monotonic() - start < 8

    within(20, test)


def test_a_worker_that_never_begins_to_load_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "COMMAND", (sys.executable, "-c", "import time; time.sleep(1000)"))
    monkeypatch.setattr(worker_process, "IMPORT_TIMEOUT", 0.5)

    async def test() -> None:
        with pytest.raises(UserError, match=r"^a worker did not start within 0.5 s; see --load-timeout$"):
            async with running(load_timeout=0.1):
                pass

    within(20, test)


def test_an_optional_model_that_takes_too_long_to_load_is_left_out_and_the_others_are_served() -> None:
    async def test() -> None:
        async with running("first", "hangs", "m", optional=True, load_timeout=1) as pool:
            assert list(pool.failed) == ["hangs"] and not pool.loading
            assert await said(pool, "a") == ["A"]
            pool.workers[0].kill()
            start = time.monotonic()
            assert await said(pool, "b") == ["B"]
            assert time.monotonic() - start < 1  # it is not tried again

    within(20, test)


# Oversized answers.


def test_an_answer_of_100_MB_is_an_error_of_its_own_request_and_the_worker_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_pool, "PING_INTERVAL", 5.0)  # no pong passes before the 100 MB did
    monkeypatch.setattr(worker_pool, "CANCEL_DEADLINE", 30.0)  # nor is a stream cancelled before it wrote them

    async def test() -> None:
        async with running() as pool:
            pid = await said(pool, "pid")
            with pytest.raises(JobRefused, match="too long"):
                await said(pool, "huge")
            assert await said(pool, "pid") == pid
            with pytest.raises(JobRefused, match="too long"):
                async for _ in pool.stream("m", "generate", {"parts": 3, "size": 100_000_000}):
                    pass
            assert await said(pool, "pid") == pid

    within(60, test)


def test_what_is_no_message_costs_the_worker_not_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    garbage = "import json,sys; sys.stdin.readline(); print(json.dumps({'ready': 1})); sys.stdin.readline(); print('{')"
    monkeypatch.setattr(worker_process, "COMMAND", (sys.executable, "-c", garbage))

    async def test() -> None:
        async with running() as pool:
            with pytest.raises(JobFailed):
                await said(pool, "a")

    within(20, test)
