"""The real server with the shipped model under overload, with slow and vanishing clients, and during shutdown.

The counts here are small. The full ones (10,000 requests, a minute of overload) are marked slow.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from serving.load import PROBE, Client, Reply, at_once, connect, reply, request_bytes
from serving.running import ROOT, Running, environment, running_server

LONG = (
    "Mesdames et Messieurs, je voudrais tout d'abord remercier le rapporteur, qui a fait un excellent travail sur ce "
    "dossier difficile, et dire que notre groupe soutient la proposition de la Commission, parce qu'elle protège les "
    "consommateurs et aide les petites entreprises de nos régions"
)
"""One long sentence."""
WORDS = LONG.split()
BOOK = json.dumps({"text": "\n".join(f"{LONG}, {number}." for number in range(300)), "beam": 32}).encode()
"""The body of a request for minutes of work."""


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running_server("--workers", "2") as running:
        yield running


def some_text(chance: random.Random) -> str:
    start = chance.randrange(len(WORDS) - 1)
    return " ".join(WORDS[start : start + chance.randint(1, 12)]) + "."


def processes(server: Running) -> list[psutil.Process]:
    """The server and its workers."""
    first = psutil.Process(server.process.pid)
    return [first, *first.children(recursive=True)]


def workers_are_idle_within(server: Running, seconds: float) -> bool:
    """Whether the workers stop computing: their CPU time in a quarter of a second is close to zero."""
    workers = processes(server)[1:]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        before = sum(sum(worker.cpu_times()[:2]) for worker in workers)
        time.sleep(0.25)
        if sum(sum(worker.cpu_times()[:2]) for worker in workers) - before < 0.05:
            return True
    return False


# R16


def test_R16_answers_to_64_at_once_are_byte_for_byte_those_of_one_after_the_other(server: Running) -> None:
    chance = random.Random(1)
    asked = [some_text(chance) for _ in range(64)]
    asked[5] = "Bonjour ! 😀\n\n- Une liste\n- https://example.org/a?b=c"

    async def one_after_the_other() -> list[bytes]:
        client = Client(server)
        found = [(await client.translate(text, alternatives=1)).body for text in asked]
        client.close()
        return found

    alone = asyncio.run(one_after_the_other())
    together = at_once(server, 64, lambda client, number: client.translate(asked[number], alternatives=1))
    assert [one.status for one in together] == [200] * 64
    assert [one.body for one in together] == alone
    assert len(set(alone)) > 50  # so no answer could have been taken for another's


# R12


def mixed(client: Client, chance: random.Random) -> Any:
    """Valid and invalid requests of every kind, in random order."""
    kind = chance.random()
    if kind < 0.5:
        return client.translate(some_text(chance))
    if kind < 0.65:
        return client.translate(
            [some_text(chance) for _ in range(chance.randint(1, 4))], alternatives=chance.randint(0, 2)
        )
    if kind < 0.75:
        return client.translate(f"<p>{some_text(chance)} <b>Bonjour</b></p>", format="html", source="auto")
    if kind < 0.8:
        return client.send("POST", "/detect", json.dumps({"q": some_text(chance)}).encode())
    if kind < 0.85:
        return client.send("GET", "/languages")
    if kind < 0.9:
        return client.translate("x", source="zz")
    if kind < 0.95:
        return client.send("POST", "/translate", b"{not json")
    return client.send("GET", "/nowhere")


@pytest.mark.parametrize("count, growth", [(500, 1.08), pytest.param(10_000, 1.05, marks=pytest.mark.slow)])
def test_R12_many_requests_leave_nothing_behind(server: Running, count: int, growth: float) -> None:
    """Compares resident memory and open files at the end with those after the first fifth, or 200 requests: by then
    every worker has opened what it needs for alignments, and seen texts of all lengths."""
    first = max(count // 5, 200)
    statuses: Counter[int] = Counter()

    def run(requests: int, seed: int) -> None:
        numbers = iter(range(requests))

        async def client(client: Client, number: int) -> None:
            chance = random.Random(seed + number)
            for _ in numbers:
                statuses[(await mixed(client, chance)).status] += 1

        at_once(server, 16, client)

    def used() -> tuple[int, int]:
        time.sleep(0.5)
        return sum(p.memory_info().rss for p in processes(server)), processes(server)[0].num_fds()

    run(first, 100)
    memory, files = used()
    run(count - first, 200)
    memory_after, files_after = used()
    assert set(statuses) == {200, 400, 404} and statuses.total() == count
    assert memory_after < growth * memory
    assert files_after <= files + 2
    print(f"{count} requests: memory x {memory_after / memory:.3f}, files {files} -> {files_after}, {dict(statuses)}")


# R13


@pytest.mark.parametrize(
    "seconds, health", [(4.0, 0.5), pytest.param(60.0, 0.1, marks=[pytest.mark.slow, pytest.mark.alone])]
)
def test_R13_asked_ten_times_too_much_it_serves_what_it_can_and_refuses_the_rest_at_once(
    seconds: float, health: float
) -> None:
    limit = 8.0
    with running_server("--queue-limit", "64", "--wait-limit", "3") as server:
        asyncio.run(Client(server).translate("Bonjour."))
        end = time.monotonic() + seconds
        good: list[Reply] = []
        refused: list[Reply] = []
        command = [sys.executable, "-c", PROBE, server, str(seconds)]
        probing = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

        async def ask(client: Client, number: int) -> None:
            chance = random.Random(number)
            await asyncio.sleep(number / 160)  # clients come as they come, not all in the same millisecond
            while time.monotonic() < end:
                found = await client.translate([" ".join(chance.choices(WORDS, k=50)) for _ in range(8)])
                (good if found.status == 200 else refused).append(found)
                if found.status != 200:
                    await asyncio.sleep(0.8)  # not as long as it was told to

        at_once(server, 160, ask)
        assert good and len(good) + len(refused) >= 10 * len(good)
        assert {one.status for one in refused} == {503}
        assert all(int(one.headers["retry-after"]) >= 1 and one.json()["error"] for one in refused)
        times = sorted(one.seconds for one in good)
        assert times[int(0.99 * len(times))] < limit
        waits = sorted(json.loads(probing.communicate(timeout=30)[0]))
        assert len(waits) > 5 * seconds and waits[-1] < health
        assert sorted(one.seconds for one in refused)[len(refused) // 2] < 0.5
        start = time.monotonic()
        assert asyncio.run(Client(server).translate("Merci.")).status == 200
        assert time.monotonic() - start < 5
        print(f"{len(good)} answered, 99 % within {times[int(0.99 * len(times))]:.2f} s; {len(refused)} refused")
        print(f"health, {len(waits)} times: all within {1000 * waits[-1]:.0f} ms")


# R14


def test_R14_a_request_over_its_time_is_ended_and_no_longer_computed() -> None:
    async def ask_for_a_book_or_a_word(client: Client, number: int) -> Reply:
        return await (client.translate("Bonjour.") if number else client.send("POST", "/api/translate", BOOK))

    with running_server("--timeout", "2") as server:
        slow, quick = at_once(server, 2, ask_for_a_book_or_a_word)
        assert slow.status == 504 and slow.seconds < 5 and "error" in slow.json()
        assert quick.status == 200
        assert workers_are_idle_within(server, 3)


def test_R14_when_the_client_goes_away_decoding_stops(server: Running) -> None:
    async def leave() -> None:
        reader, writer = await connect(server)
        writer.write(request_bytes("POST", "/api/translate", BOOK))
        await writer.drain()
        await asyncio.sleep(1.0)
        writer.close()

    assert workers_are_idle_within(server, 5)
    asyncio.run(leave())
    assert workers_are_idle_within(server, 3)
    assert asyncio.run(Client(server).translate("Bonjour.")).status == 200


def long_text(chance: random.Random) -> bytes:
    """A request for one text of 99,000 characters with a beam of 32: minutes of work."""
    text = " ".join(f"{' '.join(chance.choices(WORDS, k=25)).capitalize()}." for _ in range(1000))[:99_000]
    return request_bytes("POST", "/api/translate", json.dumps({"text": text, "beam": 32}).encode())


async def ask_and_leave(server: Running, asked: bytes, seconds: float = 1.0) -> None:
    _, writer = await connect(server)
    writer.write(asked)
    await writer.drain()
    await asyncio.sleep(seconds)
    writer.close()


def test_R14_when_the_client_of_one_long_text_goes_away_its_workers_are_free_again(server: Running) -> None:
    assert workers_are_idle_within(server, 5)
    asyncio.run(ask_and_leave(server, long_text(random.Random(1))))
    start = time.monotonic()
    assert asyncio.run(Client(server).translate("Bonjour.")).status == 200
    assert time.monotonic() - start < 3
    assert workers_are_idle_within(server, 3)


@pytest.mark.slow
@pytest.mark.alone
def test_R14_clients_who_ask_for_minutes_of_work_and_leave_keep_nobody_waiting() -> None:
    """Four such clients, repeatedly, for half a minute, and one that sends single sentences."""
    seconds = 30.0
    with running_server("--workers", "2") as server:
        asyncio.run(Client(server).translate("Bonjour."))
        probing = subprocess.Popen(
            [sys.executable, "-c", PROBE, server, str(seconds)], stdout=subprocess.PIPE, text=True
        )
        end, found = time.monotonic() + seconds, []

        async def ask(client: Client, number: int) -> None:
            chance = random.Random(number)
            asked = [long_text(chance) for _ in range(3)]
            while time.monotonic() < end:
                if number:
                    await ask_and_leave(server, chance.choice(asked))
                else:
                    found.append(await client.translate(some_text(chance)))
                    await asyncio.sleep(0.2)

        at_once(server, 5, ask)
        waits = sorted(json.loads(probing.communicate(timeout=30)[0]))
        times = sorted(one.seconds for one in found)
        print(f"health, {len(waits)} times: 99 % within {1000 * waits[int(0.99 * len(waits))]:.0f} ms")
        print(
            f"a sentence, {len(times)} times: half within {times[len(times) // 2]:.2f} s, all within {times[-1]:.2f} s"
        )
        assert {one.status for one in found} == {200} and times[-1] < 3
        assert waits[int(0.99 * len(waits))] < 0.25
        assert workers_are_idle_within(server, 3)


# R15


def test_R15_told_to_stop_it_answers_those_under_way_and_refuses_new_ones() -> None:
    with running_server("--grace", "30") as server:
        broken: list[BaseException] = []
        statuses: Counter[int] = Counter()
        told = 0.0

        async def ask(client: Client, number: int) -> None:
            nonlocal told
            if number == 0:
                await asyncio.sleep(0.7)
                told = time.monotonic()
                server.process.send_signal(signal.SIGTERM)
                return
            while True:
                try:
                    opened = await connect(server)
                except OSError:  # nobody listens any more
                    return
                reader, writer = opened
                try:
                    body = json.dumps({"q": f"{LONG}, {number}.", "source": "fr", "target": "en"}).encode()
                    writer.write(request_bytes("POST", "/translate", body))
                    found = await reply(reader, time.monotonic())
                    statuses[found.status] += 1
                    if found.status == 503:
                        return
                except (OSError, asyncio.IncompleteReadError) as error:
                    broken.append(error)
                    return
                finally:
                    writer.close()

        at_once(server, 17, ask)
        assert server.process.wait(30) == 0
        assert time.monotonic() - told < 25
        assert not broken
        assert statuses[200] >= 16 and set(statuses) <= {200, 503}


def test_R15_told_twice_it_stops_at_once() -> None:
    with running_server() as server:

        async def ask_too_much() -> None:
            _, writer = await connect(server)
            writer.write(request_bytes("POST", "/api/translate", BOOK))
            await writer.drain()
            await asyncio.sleep(1)
            children = processes(server)[1:]
            server.process.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.5)
            assert server.process.poll() is None  # it waits for the book
            server.process.send_signal(signal.SIGTERM)
            start = time.monotonic()
            assert server.process.wait(5) != 0
            assert time.monotonic() - start < 2
            assert not psutil.wait_procs(children, timeout=5)[1]  # its workers are gone, too

        asyncio.run(ask_too_much())


# R17


def test_R17_slow_and_silent_clients_keep_nobody_waiting(server: Running) -> None:
    async def test() -> None:
        silent = [await connect(server) for _ in range(50)]
        slow_head, slow_body, half = await connect(server), await connect(server), await connect(server)
        slow_head[1].write(b"POST /translate HTTP/1.1\r\nHost: 127")
        body = json.dumps({"q": "Bonjour.", "source": "fr", "target": "en"}).encode()
        slow_body[1].write(request_bytes("POST", "/translate", body)[: -len(body)])
        half[1].write(request_bytes("POST", "/translate", body))
        half[1].write_eof()
        client = Client(server)
        slowest = 0.0
        for byte in body[:10]:
            slow_body[1].write(bytes([byte]))
            found = await client.translate("Merci.")
            assert found.status == 200
            slowest = max(slowest, found.seconds)
        assert slowest < 3
        for byte in body[10:]:
            slow_body[1].write(bytes([byte]))
        assert (await reply(slow_body[0], 0)).status == 200  # slow, but within its time
        for _, writer in (*silent, slow_head, half):
            writer.close()
        client.close()

    asyncio.run(test())


@pytest.mark.slow
def test_R17_500_idle_connections_and_a_head_that_never_ends(server: Running) -> None:
    async def test() -> None:
        idle = []
        for _ in range(500):
            reader, writer = await connect(server)
            writer.write(request_bytes("GET", "/health"))
            assert (await reply(reader, 0)).status == 200
            idle.append(writer)
        never = await connect(server)
        start = time.monotonic()
        never[1].write(b"POST /translate HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
        client = Client(server)
        assert (await client.translate("Bonjour.")).seconds < 3
        assert await never[0].read() in (b"",) and time.monotonic() - start < 30  # its patience ends
        for writer in idle:
            writer.close()
        client.close()

    asyncio.run(test())


# R18


def refused(*options: str) -> tuple[int, str, float]:
    start = time.monotonic()
    command = [sys.executable, "-m", "regard", "serve", *options]
    found = subprocess.run(command, capture_output=True, text=True, env=environment(), cwd=ROOT, timeout=60)
    assert not found.stdout
    return found.returncode, found.stderr, time.monotonic() - start


def test_R18_what_cannot_be_started_is_said_in_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for options, words in {
            ("--port", "70000"): "70000",
            ("--port", port): "in use",
            ("--model", "nowhere/model"): "no model",
            ("--device", "cuda:7"): "cuda:7",
            ("--device", "toaster"): "toaster",
            ("--host", "no.such.host.invalid"): "no.such.host.invalid",
        }.items():
            code, said, seconds = refused(*options)
            if options[0] == "--device" and Path("/dev/nvidia0").exists():
                continue
            assert code != 0 and words in said and "Traceback" not in said, said
            assert len(said.strip().splitlines()) == 1, said
            assert seconds < 6  # two on a machine that does nothing else


def test_R18_a_worker_that_dies_is_replaced_and_said(server: Running) -> None:
    workers = processes(server)[1:]
    workers[0].send_signal(signal.SIGKILL)
    found = at_once(server, 8, lambda client, number: client.translate(f"Bonjour, {number}."))
    assert [one.status for one in found] == [200] * 8
    end = time.monotonic() + 60
    while len(processes(server)) < 3 and time.monotonic() < end:
        time.sleep(0.1)
    assert len(processes(server)) == 3
    assert any("worker was lost (SIGKILL)" in line for line in server.said)


@pytest.mark.slow
def test_R18_workers_that_hang_are_replaced_and_health_says_so() -> None:
    with running_server("--workers", "2") as server:
        workers = processes(server)[1:]
        for one in workers:
            one.send_signal(signal.SIGSTOP)
        statuses: list[int] = []

        async def ask(client: Client, number: int) -> Reply | None:
            if number:
                return await client.translate(f"Bonjour, {number}.")
            while 503 not in statuses or statuses[-1] != 200:
                statuses.append((await client.send("GET", "/health")).status)
                await asyncio.sleep(0.2)
            return None

        found = at_once(server, 9, ask)
        assert [one.status for one in found[1:]] == [200] * 8
        assert max(one.seconds for one in found[1:]) < 40
        assert not {one.pid for one in processes(server)} & {one.pid for one in workers}


@pytest.mark.slow
def test_R18_when_no_worker_can_be_started_any_more_the_server_exits(tmp_path: Path) -> None:
    from regard.pretrained import shipped_models

    model = shutil.copytree(shipped_models()["fr-en"], tmp_path / "model")
    with running_server("--workers", "2", "--model", str(model)) as server:
        shutil.rmtree(model)
        for one in processes(server)[1:]:
            one.kill()
        assert server.process.wait(120) == 1
        assert sum("could not be started" in line for line in server.said) >= 5
        assert "no worker can be started any more" in server.said[-1]


# R7


def test_R7_a_request_for_which_memory_does_not_suffice_costs_itself_alone() -> None:
    with running_server("--workers", "1", "--worker-memory", "120", "--beam-limit", "400") as server:

        async def ask(client: Client, text: str, **more: Any) -> Reply:
            return await client.send("POST", "/api/translate", json.dumps({"text": text, **more}).encode())

        async def test() -> None:
            client = Client(server)
            before = (await ask(client, "Bonjour.")).json()
            first = processes(server)[1].memory_info().rss
            pid = processes(server)[1].pid
            for _ in range(3):
                found = await ask(client, LONG, beam=400)
                assert found.status == 503, found.body
                assert "memory" in found.json()["error"]
                assert (await ask(client, "Bonjour.")).json() == before
            worker = processes(server)[1]
            assert worker.pid == pid  # it was not even lost
            assert worker.memory_info().rss < 1.15 * first + 60e6  # CTranslate2 keeps the buffers of a large batch
            client.close()

        asyncio.run(test())


# S21


def test_S21_nothing_is_written_but_the_cache_of_converted_models(tmp_path: Path) -> None:
    from regard.pretrained import shipped_models

    folder = shipped_models()["fr-en"]
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    (tmp_path / "tmp").mkdir(mode=0o700)
    env = {"TMPDIR": str(tmp_path / "tmp"), "HOME": str(tmp_path), "REGARD_CACHE": str(tmp_path / "cache")}
    with running_server("--workers", "1", env=env) as server:
        assert asyncio.run(Client(server).translate("Bonjour.", source="auto")).status == 200
        opened = [f.path for p in processes(server) for f in p.open_files() if set(f.mode) & set("wa+")]
        assert not [path for path in opened if not path.startswith("/dev/")]
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert all(path.is_relative_to(tmp_path / "cache" / "ctranslate2") for path in written)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    assert os.access(folder, os.R_OK)
